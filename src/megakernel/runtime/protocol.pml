/* The protocol of the runtime (core/*.h) for Spin: control, load and compute of two workers, a team of WARPS warps in the first, a
 * scheduler, the engine that lands bulk copies late, and a memory that shows plain stores and tagged words late. Each
 * worker has a ring of two places, four pairs of barriers, numbered by stage, and two entries of the list; barriers are
 * the parities that an mbarrier has. Warps take the stages in turn and meet at the end of each task, and before it where
 * it waits for a counter or is the first of its step. tests/promela/check.py runs it for every PLAN, and with every
 * MUTANT, which must fail.
 *
 * Every wait of the core is a poll, so here it is a guard: a wake-up that is lost is an invalid end state.
 *
 *   PLAN 0   ahead of time; loads run into the next step
 *            worker 0: task 0 (two loads, stores x, counter 0), task 2 (reads the tagged word, stores y, counter 1)
 *            worker 1: task 1 (waits for counter 0, reads x, writes the tagged word), task 3 (waits for counter 1, reads
 *            y, ends the step)
 *   PLAN 1   worker 0: task 0 (two loads, stores x, counter 0), task 3 (after just in time: waits for counter 1, reads y
 *            and the tagged word, ends the step); worker 1: task 1 (writes the tagged word, counter 1: a tagged word does
 *            not say that its writer has ended); just in time: task 2 (waits for counter 0, reads x, stores y, counter 1)
 *   LAST     the last epoch
 *   ABORT    somebody aborts at any moment, or never, and each role sees it at some later wait; all must end
 *   HANG     a warp never ends task 0, and somebody aborts: all but its team must end
 */
#ifndef PLAN
#define PLAN 0
#endif
#ifndef LAST
#define LAST 2
#endif
#ifndef WARPS
#define WARPS 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define DROPPED_RELEASE 1     /* compute does not release stages */
#define WRONG_PARITY 2        /* the loader waits for the other parity of an empty stage */
#define SIGNAL_BEFORE_STORE 3 /* compute signals, then stores */
#define EARLY_RELEASE 4       /* compute releases a stage before it has read it */
#define TAG_NOT_WAITED 5      /* compute reads the tagged word without looking at its epoch */
#define STEP_NOT_WAITED 6     /* compute of the next step does not wait for the end of this one */
#define JIT_AFTER_NEXT 7      /* control lists a task that waits for tasks just in time before its events are active */
#define DROPPED_ABORT 8       /* compute does not look at the abort word where it waits for the tagged word */
#define DROPPED_SIGNAL 9      /* task 0 does not signal */
#define ABORT_IN_LIST 10      /* a warp that waits for the next task leaves when it sees the abort word */
#define NOT_MET 11            /* the leader ends a task before the other warps have */

#define LISTED 2
#define NONE 9
#define TEAM(w) (w == 0 -> WARPS : 1)

#if PLAN == 0
#define STARTED 2
#define LOADS(t) (t == 0 -> 2 : 1)
#define QUEUED(w, i) (w == 0 -> (i == 0 -> 0 : (i == 1 -> 2 : NONE)) : (i == 0 -> 1 : (i == 1 -> 3 : NONE)))
#define WAITS(t) (t == 1 -> 0 : (t == 3 -> 1 : NONE))
#define READS_X(t) (t == 1)
#define READS_Y(t) (t == 3)
#define READS_TAG(t) (t == 2)
#define AFTER_JIT(t) false
#define LISTED_AHEAD 1
#else
#define STARTED 3
#define LOADS(t) (t == 0 -> 2 : 1)
#define QUEUED(w, i) (w == 0 -> (i == 0 -> 0 : (i == 1 -> 3 : NONE)) : (i == 0 -> 1 : NONE))
#define WAITS(t) (t == 2 -> 0 : (t == 3 -> 1 : NONE))
#define READS_X(t) (t == 2)
#define READS_Y(t) (t == 3)
#define READS_TAG(t) (t == 3)
#define AFTER_JIT(t) (t == 3)
#define LISTED_AHEAD 0
#endif
#define STORES_X(t) (t == 0)
#define STORES_Y(t) (t == 2)
#define WRITES_TAG(t) (t == 1)
#define SIGNALS(t) (t == 0 -> 0 : (t == 2 || (PLAN == 1 && t == 1) -> 1 : NONE))
#define TRIGGERS(event) (PLAN == 1 && event == 1 -> 2 : 1)
#define ACTIVE(event, e) (counter[event] >= TRIGGERS(event) * e)
#define ENDS_STEP(t) (t == 3)

/* What a stage holds: task, epoch, which load. 0: nothing. */
#define CONTENT(t, e, k) (1 + t + 4 * k + 8 * e)

/* Device memory. What is stored is pending until `memory` shows it. */
byte counter[2];
byte x, y, tag;
byte pending_x, pending_y, pending_tag;
byte step = 1;
bool stop, aborted;
byte started;

/* The queue of a worker: one place. The tag of its word is the number of the task, from 1. */
byte appended[2], taken[2];
byte queue_tag[2], queue_epoch[2];
byte pending_queue[2];

/* Shared memory. A barrier is the parity of its phase, which is not over. Stage n, counted around from 0 to 7, lies at
 * place n % 2 and uses barriers n % 4 in phase n / 4. */
bit stage_full[8], stage_empty[8]; /* worker w's at 4 * w */
byte flying[4];                    /* worker w's at 2 * w: the copy to a place that has not landed */
byte flying_stage[4];
byte place[4];
bit listed[4], unlisted[4]; /* worker w's at 2 * w */
byte arrivals[4];           /* of unlisted */
byte list_task[4], list_epoch[4];
byte loaded[2];
byte ended[2]; /* 0, or 1 + the tasks that control has listed: there will be no more */

/* A team that meets: how many have come, whether one of them leaves, and what they all learnt the last time. */
byte met[2];
bit meeting[2];
bool says_leave[2], leaves[2];

byte ran[4]; /* the last epoch in which a task ran */

/* Phase r is over when the parity is another one; phase r - 1 is when it is that of r. */
#define OVER(barrier, r) (barrier != r)
#define BEFORE_IS_OVER(barrier, r) (barrier == r)
#define FLIP(barrier) barrier = 1 - barrier
#define PAIR(n) (4 * w + (n) % 4)
#define PARITY(n) ((n) / 4)
#define PLACE(n) (2 * w + (n) % 2)
#define ADVANCE(place, round, places) \
  place = place + 1;                  \
  if                                  \
  :: place == places -> place = 0; FLIP(round) \
  :: else            \
  fi
#if defined(ABORT) || defined(HANG)
/* Control goes on or leaves, as its waits happen to look. What load, compute and the scheduler do after it, others do not
 * see, so one order will do: they go on until the abort, and leave when control has. */
#define CONTROL_LEAVES (stop || aborted)
#define LEAVES (stop || (aborted && ended[w] != 0))
#define SCHEDULER_LEAVES (stop || (aborted && ended[0] != 0 && ended[1] != 0))
#define GO(condition) (!aborted && (condition))
#else
#define CONTROL_LEAVES stop
#define LEAVES stop
#define SCHEDULER_LEAVES stop
#define GO(condition) (condition)
#endif
#define DONE_WITH_ENTRY(i)      \
  arrivals[i] = arrivals[i] + 1; \
  if                            \
  :: arrivals[i] == 2 -> arrivals[i] = 0; FLIP(unlisted[i]) \
  :: else                       \
  fi

proctype control(byte w) {
  byte epoch = 1, next, at, count;
  bit round;
  d_step { started = started + 1; }
  if
  :: started == STARTED
  :: CONTROL_LEAVES -> goto left
  fi;
step_begins:
  /* Loads run into the next step, but not into one that does not come, and not where tasks are just in time. */
  if
  :: !stop && (LISTED_AHEAD && epoch <= LAST -> step + 1 >= epoch : step >= epoch)
  :: CONTROL_LEAVES -> goto left
  fi;
  next = 0;
entry:
  if
  :: BEFORE_IS_OVER(unlisted[2 * w + at], round)
  :: CONTROL_LEAVES -> goto left
  fi;
choose:
  if
#if PLAN == 1
  :: atomic { (loaded[w] == count && queue_tag[w] == taken[w] + 1) ->
       list_task[2 * w + at] = 2;
       list_epoch[2 * w + at] = queue_epoch[w];
       taken[w] = taken[w] + 1;
     }
  :: atomic { (loaded[w] == count && queue_tag[w] != taken[w] + 1 && QUEUED(w, next) != NONE &&
          (!AFTER_JIT(QUEUED(w, next)) || ACTIVE(1, epoch) || MUTANT == JIT_AFTER_NEXT)) ->
#else
  :: atomic { (QUEUED(w, next) != NONE) ->
#endif
       list_task[2 * w + at] = QUEUED(w, next);
       list_epoch[2 * w + at] = epoch;
       next = next + 1;
     }
#if PLAN == 1
  :: atomic { (QUEUED(w, next) == NONE && step >= epoch + 1) -> epoch = epoch + 1; goto step_begins }
#else
  :: atomic { (QUEUED(w, next) == NONE) -> epoch = epoch + 1; goto step_begins }
#endif
  :: CONTROL_LEAVES -> goto left
  fi;
  d_step {
    FLIP(listed[2 * w + at]);
    count = count + 1;
    ADVANCE(at, round, LISTED);
  }
  goto entry;
left:
  ended[w] = count + 1
}

proctype load(byte w) {
  byte at, t, e, k, n, count;
  bit round;
  bool filled; /* both places have been filled */
next:
  if
  :: d_step { OVER(listed[2 * w + at], round) -> t = list_task[2 * w + at]; e = list_epoch[2 * w + at]; k = 0 }
  :: ended[w] == count + 1 -> goto left
  fi;
  /* Of one task after the other: the next one's begin when this one's are issued and there is room. */
  do
  :: k < LOADS(t) ->
     if
#if MUTANT == WRONG_PARITY
     :: d_step { GO(!filled || !OVER(stage_empty[PAIR((n + 6) % 8)], PARITY((n + 6) % 8))) ->
#else
     :: d_step { GO(!filled || OVER(stage_empty[PAIR((n + 6) % 8)], PARITY((n + 6) % 8))) ->
#endif
          assert(flying[PLACE(n)] == 0 && place[PLACE(n)] == 0); /* it was released */
          flying[PLACE(n)] = CONTENT(t, e, k);
          flying_stage[PLACE(n)] = n;
          k = k + 1;
          filled = filled || n == 1;
          n = (n + 1) % 8;
          if
          :: k == LOADS(t) ->
             loaded[w] = loaded[w] + 1;
             count = count + 1;
             DONE_WITH_ENTRY(2 * w + at);
             ADVANCE(at, round, LISTED);
             t = 0; e = 0; k = NONE
          :: else
          fi;
        }
     :: LEAVES -> goto left
     fi
  :: k == NONE -> k = 0; break
  od;
  goto next;
left:
  /* What has been started lands in memory that is still there. */
  flying[2 * w] == 0 && flying[2 * w + 1] == 0
}

/* What a task waits for by counters, one after the other, stays true until it goes on: so here it is one guard. */
#if MUTANT == STEP_NOT_WAITED
#define STEP_RUNS(e) true
#else
#define STEP_RUNS(e) (step >= e)
#endif
#if MUTANT == TAG_NOT_WAITED
#define TAG_HAS_COME(t, e) true
#else
#define TAG_HAS_COME(t, e) (!READS_TAG(t) || tag >= e)
#endif
#if MUTANT == DROPPED_ABORT
#define TAG_WAIT_LEAVES stop
#else
#define TAG_WAIT_LEAVES LEAVES
#endif

/* `store` and what makes it visible are two steps: others see the data between them, or later. */
#define STORE(t, e)                   \
  if                                  \
  :: STORES_X(t) -> pending_x = e     \
  :: STORES_Y(t) -> pending_y = e     \
  :: WRITES_TAG(t) -> pending_tag = e \
  :: else                             \
  fi
/* A release: after what this task has stored. Tagged words need none. */
#define SIGNAL(t)                                                                               \
  if                                                                                            \
  :: STORES_X(t) && MUTANT == DROPPED_SIGNAL                                                    \
  :: STORES_X(t) && MUTANT != DROPPED_SIGNAL && pending_x == 0 -> counter[0] = counter[0] + 1   \
  :: STORES_Y(t) && pending_y == 0 -> counter[1] = counter[1] + 1                               \
  :: WRITES_TAG(t) && SIGNALS(t) == 1 -> counter[1] = counter[1] + 1                            \
  :: SIGNALS(t) == NONE                                                                         \
  fi
#if defined(HANG)
#define MEET_LABEL(name) end_##name:
#else
#define MEET_LABEL(name)
#endif
/* All warps of the team come, and learn whether one of them leaves. */
#define COME(leaving)                              \
  d_step {                                         \
    says_leave[w] = says_leave[w] || leaving;      \
    met[w] = met[w] + 1;                           \
    mine = 1 - mine;                               \
    if                                             \
    :: met[w] == TEAM(w) ->                          \
       met[w] = 0; leaves[w] = says_leave[w]; says_leave[w] = false; meeting[w] = mine \
    :: else                                        \
    fi                                             \
  }

proctype compute(byte w; byte warp) {
  byte at, t, e, k, n, count, seen;
  bit round, mine;
  bool leaving;
next:
  if
  :: d_step { OVER(listed[2 * w + at], round) -> t = list_task[2 * w + at]; e = list_epoch[2 * w + at]; k = 0 }
  :: ended[w] == count + 1 -> goto left
#if MUTANT == ABORT_IN_LIST
  :: aborted -> goto left
#endif
  fi;
  atomic {
  if
  :: seen != e || WAITS(t) != NONE ->
     seen = e;
     if
     :: warp == 0 ->
        if
        :: GO(STEP_RUNS(e) && (WAITS(t) == NONE || ACTIVE((WAITS(t) == 1 -> 1 : 0), e)))
        :: LEAVES -> leaving = true
        fi
     :: else
     fi;
     COME(leaving);
MEET_LABEL(begin)
     meeting[w] == mine;
     if
     :: leaves[w] -> goto left
     :: else
     fi
  :: else
  fi
  }
#ifdef HANG
  if
  :: t == 0 && warp == WARPS - 1 -> end_hang: false
  :: else
  fi;
#endif
  if
  :: d_step { GO(TAG_HAS_COME(t, e)) ->
       assert(aborted || !READS_TAG(t) || tag == e);
       assert(aborted || !READS_X(t) || x == e);
       assert(aborted || !READS_Y(t) || y == e);
     }
  :: TAG_WAIT_LEAVES -> leaving = true
  fi;
  do
  :: k < LOADS(t) && (n % TEAM(w) != warp) -> d_step { k = k + 1; n = (n + 1) % 8 }
  :: k < LOADS(t) && (n % TEAM(w) == warp) && leaving -> d_step { k = k + 1; n = (n + 1) % 8 }
  :: k < LOADS(t) && (n % TEAM(w) == warp) && !leaving ->
     if
     :: d_step { GO(OVER(stage_full[PAIR(n)], PARITY(n))) -> assert(place[PLACE(n)] == CONTENT(t, e, k)) }
#if MUTANT == EARLY_RELEASE
        d_step { place[PLACE(n)] = 0; FLIP(stage_empty[PAIR(n)]) }
        d_step { assert(place[PLACE(n)] == 0 || place[PLACE(n)] == CONTENT(t, e, k)) }
#else
        d_step {
          assert(place[PLACE(n)] == CONTENT(t, e, k) && flying[PLACE(n)] == 0);
          place[PLACE(n)] = 0;
#if MUTANT != DROPPED_RELEASE
          FLIP(stage_empty[PAIR(n)])
#endif
        }
#endif
     :: LEAVES -> leaving = true
     fi;
     d_step { k = k + 1; n = (n + 1) % 8 }
  :: else -> break
  od;
  /* This warp is done with what it reads. */
  atomic {
    if
    :: warp == 0 && !leaving ->
       assert(aborted || ran[t] == e - 1); /* once in each epoch */
#if MUTANT != SIGNAL_BEFORE_STORE
       STORE(t, e)
#endif
    :: else
    fi
  }
#if MUTANT == NOT_MET
  if
  :: warp == 0 -> skip
  :: else -> goto done
  fi;
#else
  atomic {
    COME(leaving);
MEET_LABEL(end)
    meeting[w] == mine;
    if
    :: leaves[w] -> goto left
    :: else
    fi
  }
#endif
  if
  :: warp == 0 ->
     atomic { ran[t] = e; SIGNAL(t) }
     atomic {
#if MUTANT == SIGNAL_BEFORE_STORE
       STORE(t, e);
#endif
       DONE_WITH_ENTRY(2 * w + at);
       if
       :: ENDS_STEP(t) ->
          assert(aborted || (ran[0] == e && ran[1] == e && ran[2] == e));
          if
          :: e == LAST -> stop = true
          :: else -> step = e + 1
          fi
       :: else
       fi
     }
  :: else
  fi;
done:
  skip;
  d_step {
    count = count + 1;
    ADVANCE(at, round, LISTED);
    t = 0;
    e = 0;
    k = 0
  }
  goto next;
left:
  skip
}

#if PLAN == 1
/* Gives task 2 to any worker. */
proctype scheduler() {
  byte e = 1, w;
  d_step { started = started + 1; }
  if
  :: GO(started == STARTED)
  :: SCHEDULER_LEAVES -> goto left
  fi;
next:
  if
  :: GO(!stop && step >= e)
  :: SCHEDULER_LEAVES -> goto left
  fi;
  if
  :: GO(ACTIVE(0, e))
  :: SCHEDULER_LEAVES -> goto left
  fi;
  if
  :: w = 0
  :: w = 1
  fi;
  appended[w] = appended[w] + 1;
  if
  :: GO(taken[w] + 1 == appended[w])
  :: SCHEDULER_LEAVES -> goto left
  fi;
  d_step { assert(pending_queue[w] == 0); pending_queue[w] = e; e = e + 1; w = 0 }
  goto next;
left:
  skip
}
#endif

/* Lands copies at any time after they were started, in any order. */
#define LAND(i)                                     \
  d_step { flying[i] != 0 ->                        \
    assert(place[i] == 0 || aborted); /* nobody reads it */    \
    place[i] = flying[i]; flying[i] = 0; FLIP(stage_full[4 * (i / 2) + flying_stage[i] % 4]); flying_stage[i] = 0 }
proctype copies() {
end_copies:
  do
  :: LAND(0)
  :: LAND(1)
  :: LAND(2)
  :: LAND(3)
  od
}

/* Shows what was stored at any time after it was, in any order. */
proctype memory() {
end_memory:
  do
  :: d_step { pending_x != 0 -> x = pending_x; pending_x = 0 }
  :: d_step { pending_y != 0 -> y = pending_y; pending_y = 0 }
  :: d_step { pending_tag != 0 -> tag = pending_tag; pending_tag = 0 }
#if PLAN == 1
  :: d_step { pending_queue[0] != 0 ->
       queue_epoch[0] = pending_queue[0]; queue_tag[0] = queue_tag[0] + 1; pending_queue[0] = 0 }
  :: d_step { pending_queue[1] != 0 ->
       queue_epoch[1] = pending_queue[1]; queue_tag[1] = queue_tag[1] + 1; pending_queue[1] = 0 }
#endif
  od
}

#if defined(ABORT) || defined(HANG)
proctype fault() {
#ifdef HANG
  aborted = true
#else
  if
  :: aborted = true
  :: stop
  fi
#endif
}
#endif

init {
  atomic {
    run copies();
    run memory();
    run control(0);
    run load(0);
    run compute(0, 0);
#if WARPS == 2
    run compute(0, 1);
#endif
    run control(1);
    run load(1);
    run compute(1, 0);
#if PLAN == 1
    run scheduler();
#endif
#if defined(ABORT) || defined(HANG)
    run fault();
#endif
  }
}
