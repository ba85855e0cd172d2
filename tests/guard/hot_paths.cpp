// Runs the hot paths of the library on data that it makes, for count_instructions.py:
//
//   hot_paths FOLDER
//
// Each path runs between two calls of energon_guard_mark(), where valgrind writes its counts.
// Prints a line for each path: its name, the unit, the number of units, and the allocations.
// Everything that a path needs is made before its first mark, and runs once as a warm-up.
//
// The same instructions must run on every machine and in every run: there is one thread, the clock
// is a counter, and the allocator always does the same. Run the program twice in a folder, and
// count the second time: the first makes the data.

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "energon/process/message_ring.h"
#include "energon/worker/transport.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index_writer.h"
#include "io/tar/shard_scan.h"
#include "tests/guard/small_batches.h"
#include "tests/guard/steady_new.h"
#include "tests/guard/worker_pair.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/repeat.h"
#include "wrappers/orders/shuffle_buffer.h"

extern "C" {

// valgrind finds this function by name.
[[gnu::noinline]] void energon_guard_mark() { asm volatile("" ::: "memory"); }

// Replaces the clock of the process; advances by a microsecond per call.
int clock_gettime(clockid_t /*clock*/, timespec* time) noexcept {
  static std::int64_t microseconds = 0;
  ++microseconds;
  time->tv_sec = microseconds / 1'000'000;
  time->tv_nsec = microseconds % 1'000'000 * 1000;
  return 0;
}
}

namespace energon::testing {
namespace {

constexpr int kReferences = 20'000;
constexpr int kBatches = 25;  // covers each sample once
constexpr int kUnits = 5'000;
constexpr int kSaves = 20;

void expect(bool holds, const char* what) {
  if (!holds) {
    throw Error(ErrorCode::kInternal, std::string("hot_paths: not so: ") + what);
  }
}

template <class Function>
void measure(const char* name, const char* unit, std::int64_t count, const Function& run) {
  const std::uint64_t before = steady_allocations();
  energon_guard_mark();
  run();
  energon_guard_mark();
  std::printf("%s\t%s\t%lld\t%lld\n", name, unit, static_cast<long long>(count),
              static_cast<long long>(steady_allocations() - before));
}

std::unique_ptr<Order> endless_slices(std::uint32_t leaf) {
  const std::vector<std::int64_t> shards(40, 1000);
  return std::make_unique<Repeat>(
      std::make_unique<SliceOrder>(
          slice_bounds({.shard_counts = shards, .max_samples_per_sequence = 100}, 0),
          std::vector<std::int64_t>(), SliceOrderOptions{.seed = 1, .leaf = leaf}),
      std::nullopt);
}

void run_order(const char* name, Order& order) {
  const auto draw = [&] {
    for (int i = 0; i < kReferences; ++i) {
      expect(order.next().has_value(), "an endless order has a next reference");
    }
  };
  draw();
  measure(name, "reference", kReferences, draw);
}

void run_orders() {
  run_order("order: slices", *endless_slices(0));
  ShuffleBuffer buffer(endless_slices(0), 10'000, 1);
  run_order("order: shuffle buffer of 10,000", buffer);
  std::vector<WeightedOrder> inners;
  for (std::uint32_t leaf = 0; leaf < 8; ++leaf) {
    inners.push_back({endless_slices(leaf), 1.0 + leaf});
  }
  Blend blend(std::move(inners), 1);
  run_order("order: blend of 8", blend);
}

void run_loader(const char* name, const std::shared_ptr<const Webdataset>& dataset) {
  const auto loader = warm_loader(dataset);
  measure(name, "sample", kBatches * kBatchSamples, [&] { take_batches(*loader, kBatches); });
}

void run_save(const std::shared_ptr<const Webdataset>& dataset) {
  const auto loader = warm_loader(dataset, 1000);
  const auto save = [&] {
    for (int i = 0; i < kSaves; ++i) {
      expect(!encode_loader_state(loader->save_state_rank()).empty(), "a state has bytes");
    }
  };
  save();
  measure("save: shuffle buffer of 1,000", "save", kSaves, save);
}

void run_worker(const std::shared_ptr<const Webdataset>& dataset, const char* sending,
                const char* receiving) {
  WorkerPair pair(batches_of(dataset));
  const auto send = [&] {
    for (int i = 0; i < kBatches; ++i) {
      pair.send();
    }
  };
  const auto receive = [&] {
    for (int i = 0; i < kBatches; ++i) {
      expect(pair.receive().keys.size() == kBatchSamples, "a batch arrives whole");
    }
  };
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    send();
    receive();
  }
  measure(sending, "sample", kBatches * kBatchSamples, send);
  measure(receiving, "sample", kBatches * kBatchSamples, receive);
}

/// Describes payloads that are stored consecutively in one slot.
class OneSlot final : public PayloadPlacer {
 public:
  PayloadPlace place(const SharedBytes& payload) override {
    return {0, std::exchange(offset_, offset_ + payload.size())};
  }
  std::uint64_t size() const { return offset_; }

 private:
  std::uint64_t offset_ = 0;
};

void run_transport(const std::shared_ptr<const Webdataset>& dataset) {
  const auto loader = warm_loader(dataset);
  const auto batch = loader->next();
  expect(batch.has_value(), "an endless loader has a batch");
  ShardNumbers numbers;
  NumberedShards numbered;
  ByteWriter writer;
  std::vector<SharedBytes> slots;
  std::string memory;
  const auto encode = [&](int times) {
    for (int i = 0; i < times; ++i) {
      OneSlot slot;
      writer.clear();
      encode_sample(*batch, slot, numbers, writer);
      memory.resize(slot.size());
    }
  };
  const auto decode = [&](int times) {
    for (int i = 0; i < times; ++i) {
      expect(decode_sample(writer.bytes(), slots, numbered).keys == batch->keys,
             "a batch crosses as it is");
    }
  };
  encode(1);  // sends the names of the shards
  slots = {{as_bytes(memory), nullptr}};
  decode(1);
  encode(1);
  measure("transport: encode", "sample", kBatches * kBatchSamples, [&] { encode(kBatches); });
  measure("transport: decode", "sample", kBatches * kBatchSamples, [&] { decode(kBatches); });
}

void run_ring() {
  constexpr std::uint64_t kCapacity = 1 << 16;
  constexpr int kAhead = 100;
  constexpr std::uint64_t kUnitBytes = 128;
  const std::uint64_t size = ring_footprint(kCapacity);
  const SharedRange range = shared_range(SharedMemory::create(size), 0, size);
  format_ring(range, kCapacity);
  const auto to_reader = std::make_shared<Doorbell>();
  const auto to_writer = std::make_shared<Doorbell>();
  RingWriter writer(range, to_reader, to_writer, {.max_units = 256, .max_weight = 1 << 20});
  RingReader reader(range, to_writer, to_reader, {.naps = true});
  const auto pass = [&] {
    for (int sent = 0; sent < kUnits; sent += kAhead) {
      for (int i = 0; i < kAhead; ++i) {
        expect(writer.try_begin(kUnitBytes).status == RingStatus::kItem, "the ring has room");
        writer.commit(kUnitBytes, 1000);
      }
      for (int i = 0; i < kAhead; ++i) {
        expect(reader.try_read().status == RingStatus::kItem, "the ring has a unit");
        reader.release();
      }
    }
  };
  pass();
  measure("ring: write and read", "unit", kUnits, pass);
}

void run_prepare(const std::string& folder) {
  const FileSource tar(
      bench::make_data_set(
          folder,
          {.name = "tar", .samples = 1000, .shards = 1, .parts = {{"txt", 600}, {"json", 200}}})
          .path +
      "/000000.tar");
  ShardScan scan = scan_shard(tar);
  measure("prepare: walk", "header", 2000, [&] { scan = scan_shard(tar); });
  const auto encode = [&] {
    expect(encode_rows(scan, 0, {}).counts.parts == 2000, "each part has a row");
  };
  encode();
  measure("prepare: rows", "sample", 1000, encode);
}

void run(const std::string& folder) {
  const auto one_part = small_samples(folder, Parts::kOne);
  const auto two_parts = small_samples(folder, Parts::kTwo);
  const auto large = small_samples(folder, Parts::kLarge);
  run_orders();
  run_loader("read: 300 B", one_part);
  run_loader("read: 600 + 200 B", two_parts);
  run_loader("read: 8 KiB", large);
  run_worker(two_parts, "worker: read, pack and send, 800 B", "trainer: receive, 800 B");
  run_worker(large, "worker: read, pack and send, 8 KiB", "trainer: receive, 8 KiB");
  run_transport(two_parts);
  run_ring();
  run_save(one_part);
  run_prepare(folder);
}

}  // namespace
}  // namespace energon::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  try {
    energon::testing::run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
