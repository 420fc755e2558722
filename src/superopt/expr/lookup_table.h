// The hash table behind interning and memoisation: it only grows, and readers take no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "support/hash.h"

namespace strata {

/// uint64 -> uint32, for many threads. A key may be a hash: entries with equal keys are told apart by the
/// caller's predicate. Writers lock one shard; readers see a table that is only ever added to, and a table
/// that was outgrown is kept until the end because a reader may still be in it.
class LookupTable {
 public:
  LookupTable() {
    for (Shard& shard : shards_) shard.install(std::make_unique<Table>(kFirst));
  }

  /// The value with this key for which same(value) holds.
  template <class Same>
  std::optional<uint32_t> find(uint64_t key, Same&& same) const {
    const uint64_t hash = mix(key);
    return shards_[hash % kShards].table.load(std::memory_order_acquire)->find(key, hash, same);
  }
  std::optional<uint32_t> find(uint64_t key) const {
    return find(key, [](uint32_t) { return true; });
  }

  /// The same, or else the value of make(), entered. make() must not use this table.
  template <class Same, class Make>
  uint32_t find_or_insert(uint64_t key, Same&& same, Make&& make) {
    const uint64_t hash = mix(key);
    Shard& shard = shards_[hash % kShards];
    const std::lock_guard lock(shard.writers);
    Table* table = shard.table.load(std::memory_order_relaxed);
    if (const auto present = table->find(key, hash, same)) return *present;
    const uint32_t value = make();
    if (2 * (shard.used + 1) > table->slots.size()) table = shard.outgrow();
    table->insert(key, hash, value);
    ++shard.used;
    return value;
  }
  void insert(uint64_t key, uint32_t value) {
    find_or_insert(
        key, [](uint32_t) { return true; }, [value] { return value; });
  }

 private:
  static constexpr size_t kShards = 64;
  static constexpr size_t kFirst = 16;

  /// `key` is stored as key + 1: 0 means an empty slot. It is written after `value`, so a reader that sees
  /// the key sees the value.
  struct Slot {
    std::atomic<uint64_t> key{0};
    std::atomic<uint32_t> value{0};
  };
  struct Table {
    explicit Table(size_t size) : slots(size) {}

    template <class Same>
    std::optional<uint32_t> find(uint64_t key, uint64_t hash, Same&& same) const {
      for (size_t at = hash / kShards;; ++at) {
        const Slot& slot = slots[at & (slots.size() - 1)];
        const uint64_t present = slot.key.load(std::memory_order_acquire);
        if (present == 0) return std::nullopt;
        if (present != key + 1) continue;
        const uint32_t value = slot.value.load(std::memory_order_relaxed);
        if (same(value)) return value;
      }
    }
    void insert(uint64_t key, uint64_t hash, uint32_t value) {
      size_t at = hash / kShards;
      while (slots[at & (slots.size() - 1)].key.load(std::memory_order_relaxed) != 0) ++at;
      Slot& slot = slots[at & (slots.size() - 1)];
      slot.value.store(value, std::memory_order_relaxed);
      slot.key.store(key + 1, std::memory_order_release);
    }

    std::vector<Slot> slots;
  };
  struct alignas(64) Shard {
    void install(std::unique_ptr<Table> fresh) {
      tables.push_back(std::move(fresh));
      table.store(tables.back().get(), std::memory_order_release);
    }
    Table* outgrow() {
      const Table& old = *tables.back();
      auto fresh = std::make_unique<Table>(2 * old.slots.size());
      for (const Slot& slot : old.slots) {
        const uint64_t key = slot.key.load(std::memory_order_relaxed);
        if (key != 0) fresh->insert(key - 1, mix(key - 1), slot.value.load(std::memory_order_relaxed));
      }
      install(std::move(fresh));
      return tables.back().get();
    }

    std::atomic<Table*> table{nullptr};
    std::mutex writers;
    size_t used = 0;
    std::vector<std::unique_ptr<Table>> tables;
  };

  std::array<Shard, kShards> shards_;
};

}  // namespace strata
