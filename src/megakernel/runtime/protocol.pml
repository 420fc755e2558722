/* The protocol of the runtime (core/*.h) for Spin: control, load, gather and compute of two workers, a scheduler, the
 * engine that lands bulk copies late, and a memory that shows plain stores and tagged words late. Two slots, two pages
 * and two entries of the list for each worker; barriers are the parities that an mbarrier has. tests/promela/check.py
 * runs it for every PLAN, and with every MUTANT, which must fail.
 *
 * Every wait of the core is a poll, so here it is a guard: a wake-up that is lost is an invalid end state.
 *
 *   PLAN 0   ahead of time; loads run into the next step
 *            worker 0: task 0 (two loads, stores x, counter 0), task 2 (reads the tagged word, stores y, counter 1)
 *            worker 1: task 1 (waits for counter 0, reads x, writes the tagged word), task 3 (waits for counter 1, reads
 *            y, ends the step)
 *   PLAN 1   worker 0: task 0 (two loads, stores x, counter 0), task 3 (after just in time: waits for counter 1, reads y
 *            and the tagged word, ends the step); worker 1: task 1 (writes the tagged word); just in time: task 2 (waits
 *            for counter 0, reads x, stores y, counter 1)
 *   LAST     the last epoch
 *   ABORT    somebody aborts at any moment, or never, and each role sees it at its next wait; all must end
 *   HANG     task 0 never ends, and somebody aborts: all others must end
 */
#ifndef PLAN
#define PLAN 0
#endif
#ifndef LAST
#define LAST 2
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#define DROPPED_RELEASE 1     /* compute does not release slots */
#define WRONG_PARITY 2        /* the loader waits for the other parity of an empty slot */
#define SIGNAL_BEFORE_STORE 3 /* compute signals, then stores */
#define EARLY_RELEASE 4       /* compute releases a slot before it has read it */
#define PAGE_NOT_WAITED 5     /* gather fills a page that compute may still read */
#define TAG_NOT_WAITED 6      /* gather reads the tagged word without looking at its epoch */
#define STEP_NOT_WAITED 7     /* gather of the next step does not wait for the end of this one */
#define JIT_AFTER_NEXT 8      /* control lists a task that waits for tasks just in time before its events are active */
#define DROPPED_ABORT 9       /* gather does not look at the abort word */
#define DROPPED_SIGNAL 10     /* task 0 does not signal */

#define SLOTS 2
#ifndef PAGES
#define PAGES 2
#endif
#define LISTED 2
#define NONE 9

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
#define SIGNALS(t) (t == 0 -> 0 : (t == 2 -> 1 : NONE))
#define ENDS_STEP(t) (t == 3)

/* What a slot holds: task, epoch, which load; a page: task, epoch. 0: nothing. */
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

/* Shared memory, worker w's i-th at 2 * w + i. A barrier is the parity of its phase, which is not over. */
bit slot_full[4], slot_empty[4], page_empty[4], listed[4], gathered[4], unlisted[4];
byte arrivals[4]; /* of unlisted */
byte flying[4];   /* the copy to a slot that has not landed */
byte slot[4], page[4];
byte list_task[4], list_epoch[4];
byte loaded[2];

byte ran[4]; /* the last epoch in which a task ran */

/* Phase r is over when the parity is another one; phase r - 1 is when it is that of r. */
#define OVER(barrier, r) (barrier != r)
#define BEFORE_IS_OVER(barrier, r) (barrier == r)
#define FLIP(barrier) barrier = 1 - barrier
#define ADVANCE(place, round, places) \
  place = place + 1;                  \
  if                                  \
  :: place == places -> place = 0; FLIP(round) \
  :: else            \
  fi
#if defined(ABORT) || defined(HANG)
/* A role that sees the abort leaves, and changes nothing that others see. So all orders in which roles leave are equal,
 * and one will do: by number, that of the role that hangs last. */
int gone;
#define LEAVES(i) (stop || (aborted && (gone & ((1 << (i)) - 1)) == (1 << (i)) - 1))
#define HAS_LEFT(i) gone = gone | (1 << (i))
#define GO(condition) (!aborted && (condition))
#else
#define LEAVES(i) stop
#define HAS_LEFT(i) skip
#define GO(condition) (condition)
#endif
#define CONTROL (w)
#define LOAD (2 + w)
#define GATHER (4 + w)
#define SCHEDULER 6
#define COMPUTE (6 + (PLAN == 1) - w + 1)
#define DONE_WITH_ENTRY(i)      \
  arrivals[i] = arrivals[i] + 1; \
  if                            \
  :: arrivals[i] == 3 -> arrivals[i] = 0; FLIP(unlisted[i]) \
  :: else                       \
  fi

proctype control(byte w) {
  byte epoch = 1, next, at, count, t;
  bit round;
  d_step { started = started + 1; }
  if
  :: GO(started == STARTED)
  :: LEAVES(CONTROL) -> goto left
  fi;
step_begins:
  /* Loads run into the next step, but not into one that does not come, and not where tasks are just in time. */
  if
  :: GO(!stop && (LISTED_AHEAD && epoch <= LAST -> step + 1 >= epoch : step >= epoch))
  :: LEAVES(CONTROL) -> goto left
  fi;
  next = 0;
entry:
  if
  :: GO(BEFORE_IS_OVER(unlisted[2 * w + at], round))
  :: LEAVES(CONTROL) -> goto left
  fi;
choose:
  if
#if PLAN == 1
  :: atomic { GO(loaded[w] == count && queue_tag[w] == taken[w] + 1) ->
       list_task[2 * w + at] = 2;
       list_epoch[2 * w + at] = queue_epoch[w];
       taken[w] = taken[w] + 1;
     }
  :: atomic { GO(loaded[w] == count && queue_tag[w] != taken[w] + 1 && QUEUED(w, next) != NONE &&
          (!AFTER_JIT(QUEUED(w, next)) || counter[1] >= epoch || MUTANT == JIT_AFTER_NEXT)) ->
#else
  :: atomic { GO(QUEUED(w, next) != NONE) ->
#endif
       list_task[2 * w + at] = QUEUED(w, next);
       list_epoch[2 * w + at] = epoch;
       next = next + 1;
     }
#if PLAN == 1
  :: atomic { GO(QUEUED(w, next) == NONE && step >= epoch + 1) -> epoch = epoch + 1; goto step_begins }
#else
  :: atomic { GO(QUEUED(w, next) == NONE) -> epoch = epoch + 1; goto step_begins }
#endif
  :: LEAVES(CONTROL) -> goto left
  fi;
  d_step {
    FLIP(listed[2 * w + at]);
    count = count + 1;
    ADVANCE(at, round, LISTED);
  }
  goto entry;
left:
  HAS_LEFT(CONTROL)
}

proctype load(byte w) {
  byte at, t, e, k, s;
  bit round, slot_round;
next:
  if
  :: d_step { GO(OVER(listed[2 * w + at], round)) -> t = list_task[2 * w + at]; e = list_epoch[2 * w + at]; k = 0 }
  :: LEAVES(LOAD) -> goto left
  fi;
  /* Of one task after the other: the next one's begin when this one's are issued and a slot is free. */
  do
  :: k < LOADS(t) ->
     if
#if MUTANT == WRONG_PARITY
     :: d_step { GO(OVER(slot_empty[2 * w + s], slot_round)) ->
#else
     :: d_step { GO(BEFORE_IS_OVER(slot_empty[2 * w + s], slot_round)) ->
#endif
          assert(flying[2 * w + s] == 0 && slot[2 * w + s] == 0); /* it was released */
          flying[2 * w + s] = CONTENT(t, e, k);
          k = k + 1;
          ADVANCE(s, slot_round, SLOTS);
          if
          :: k == LOADS(t) ->
             loaded[w] = loaded[w] + 1;
             DONE_WITH_ENTRY(2 * w + at);
             ADVANCE(at, round, LISTED);
             t = 0; e = 0; k = NONE
          :: else
          fi;
        }
     :: LEAVES(LOAD) -> goto left
     fi
  :: k == NONE -> k = 0; break
  od;
  goto next;
left:
  /* What has been started lands in memory that is still there. */
  flying[2 * w] == 0 && flying[2 * w + 1] == 0;
  HAS_LEFT(LOAD)
}

/* What gather waits for, one after the other, stays true until it goes on: so here it is one guard. */
#if MUTANT == STEP_NOT_WAITED
#define STEP_RUNS(e) true
#else
#define STEP_RUNS(e) (!stop && step >= e)
#endif
#if MUTANT == PAGE_NOT_WAITED
#define PAGE_IS_EMPTY(i, r) true
#else
#define PAGE_IS_EMPTY(i, r) BEFORE_IS_OVER(page_empty[i], r)
#endif
#if MUTANT == TAG_NOT_WAITED
#define TAG_HAS_COME(t, e) true
#else
#define TAG_HAS_COME(t, e) (!READS_TAG(t) || tag >= e)
#endif
#if MUTANT == DROPPED_ABORT
#define GATHER_LEAVES stop
#else
#define GATHER_LEAVES LEAVES(GATHER)
#endif

proctype gather(byte w) {
  byte at, t, e, p;
  bit round, page_round;
next:
  if
  :: d_step { GO(OVER(listed[2 * w + at], round)) -> t = list_task[2 * w + at]; e = list_epoch[2 * w + at] }
  :: GATHER_LEAVES -> goto left
  fi;
  if
  :: d_step { GO(STEP_RUNS(e) && (WAITS(t) == NONE || counter[(WAITS(t) == 1 -> 1 : 0)] >= e) &&
              PAGE_IS_EMPTY(2 * w + p, page_round) && TAG_HAS_COME(t, e)) ->
       assert(!READS_X(t) || x == e);
       assert(!READS_Y(t) || y == e);
       assert(!READS_TAG(t) || tag == e);
       assert(page[2 * w + p] == 0); /* it was released */
       page[2 * w + p] = CONTENT(t, e, 0);
       ADVANCE(p, page_round, PAGES);
       FLIP(gathered[2 * w + at]);
       DONE_WITH_ENTRY(2 * w + at);
       ADVANCE(at, round, LISTED);
       t = 0;
       e = 0;
     }
  :: GATHER_LEAVES -> goto left
  fi;
  goto next;
left:
  HAS_LEFT(GATHER)
}

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
  :: SIGNALS(t) == NONE                                                                         \
  fi

proctype compute(byte w) {
  byte at, t, e, k, s, p;
  bit round, slot_round;
next:
  if
  :: d_step { GO(OVER(gathered[2 * w + at], round)) -> t = list_task[2 * w + at]; e = list_epoch[2 * w + at]; k = 0 }
  :: LEAVES(COMPUTE) -> goto left
  fi;
#ifdef HANG
  if
  :: t == 0 -> end_hang: false
  :: else
  fi;
#endif
  do
  :: k < LOADS(t) ->
     if
     :: d_step { GO(OVER(slot_full[2 * w + s], slot_round)) -> assert(slot[2 * w + s] == CONTENT(t, e, k)) }
     :: LEAVES(COMPUTE) -> goto left
     fi;
#if MUTANT == EARLY_RELEASE
     d_step { slot[2 * w + s] = 0; FLIP(slot_empty[2 * w + s]) }
     d_step {
       assert(slot[2 * w + s] == 0 || slot[2 * w + s] == CONTENT(t, e, k));
       k = k + 1;
       ADVANCE(s, slot_round, SLOTS);
     }
#else
     d_step {
       assert(slot[2 * w + s] == CONTENT(t, e, k) && flying[2 * w + s] == 0);
       slot[2 * w + s] = 0;
#if MUTANT != DROPPED_RELEASE
       FLIP(slot_empty[2 * w + s]);
#endif
       k = k + 1;
       ADVANCE(s, slot_round, SLOTS);
     }
#endif
  :: else -> break
  od;
  atomic {
    assert(page[2 * w + p] == CONTENT(t, e, 0));
    assert(ran[t] == e - 1); /* once in each epoch */
    ran[t] = e;
#if MUTANT != SIGNAL_BEFORE_STORE
    STORE(t, e)
#endif
  }
  SIGNAL(t);
#if MUTANT == SIGNAL_BEFORE_STORE
  STORE(t, e);
#endif
  atomic {
    assert(page[2 * w + p] == CONTENT(t, e, 0));
    page[2 * w + p] = 0;
    FLIP(page_empty[2 * w + p]);
    p = (p + 1) % PAGES;
    DONE_WITH_ENTRY(2 * w + at);
    ADVANCE(at, round, LISTED);
    if
    :: ENDS_STEP(t) ->
       assert(ran[0] == e && ran[1] == e && ran[2] == e);
       if
       :: e == LAST -> stop = true
       :: else -> step = e + 1
       fi
    :: else
    fi;
    t = 0;
    e = 0;
    k = 0
  }
  goto next;
left:
  HAS_LEFT(COMPUTE)
}

#if PLAN == 1
/* Gives task 2 to any worker. */
proctype scheduler() {
  byte e = 1, w;
  d_step { started = started + 1; }
  if
  :: GO(started == STARTED)
  :: LEAVES(SCHEDULER) -> goto left
  fi;
next:
  if
  :: GO(!stop && step >= e)
  :: LEAVES(SCHEDULER) -> goto left
  fi;
  if
  :: GO(counter[0] >= e)
  :: LEAVES(SCHEDULER) -> goto left
  fi;
  if
  :: w = 0
  :: w = 1
  fi;
  appended[w] = appended[w] + 1;
  if
  :: GO(taken[w] + 1 == appended[w])
  :: LEAVES(SCHEDULER) -> goto left
  fi;
  d_step { assert(pending_queue[w] == 0); pending_queue[w] = e; e = e + 1; w = 0 }
  goto next;
left:
  HAS_LEFT(SCHEDULER)
}
#endif

/* Lands copies at any time after they were started, in any order. */
#define LAND(i)                                       \
  d_step { flying[i] != 0 ->                          \
    assert(slot[i] == 0); /* nobody reads it */       \
    slot[i] = flying[i]; flying[i] = 0; FLIP(slot_full[i]) }
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
    run gather(0);
    run compute(0);
    run control(1);
    run load(1);
    run gather(1);
    run compute(1);
#if PLAN == 1
    run scheduler();
#endif
#if defined(ABORT) || defined(HANG)
    run fault();
#endif
  }
}
