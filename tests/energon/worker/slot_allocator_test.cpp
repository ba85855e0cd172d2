// Buffers of a worker that other threads hold and release at any time.

#include "energon/worker/slot_allocator.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "tests/energon/loader/loader_fixture.h"
#include "tests/energon/process/process_fixture.h"
#include "tests/energon/process/synthetic_stream.h"
#include "tests/support/call_function.h"
#include "wrappers/batching/batch_functions.h"

namespace {

using energon::Buffer;
using energon::CallContext;
using energon::LoaderOptions;
using energon::MapFunction;
using energon::PackedSample;
using energon::ParentEndpoint;
using energon::Sample;
using energon::SharedBytes;
using energon::SlotAllocator;
using energon::WorkerEndpoint;
using energon::testing::attach_here;
using energon::testing::eventually;
using energon::testing::hang_limit;
using energon::testing::LoaderFixture;
using energon::testing::small_channel;
using energon::testing::take;

/// A thread that checks the buffers it receives and releases them.
class Releaser {
 public:
  explicit Releaser(std::size_t capacity) : capacity_(capacity) {}
  ~Releaser() { close(); }

  /// All bytes of `bytes` are `value`. Waits while there are too many.
  void take(SharedBytes bytes, std::byte value) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() < capacity_; });
    held_.emplace_back(std::move(bytes), value);
    changed_.notify_all();
  }

  /// Releases all buffers. Returns true if each was correct.
  bool close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) {
      thread_.join();
    }
    return all_right_;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return is_closed_ || !held_.empty(); });
      if (held_.empty()) {
        return;
      }
      auto [bytes, value] = std::move(held_.front());
      held_.pop_front();
      changed_.notify_all();
      lock.unlock();
      const bool right =
          std::all_of(bytes.view.begin(), bytes.view.end(),
                      [expected = value](std::byte byte) { return byte == expected; });
      bytes = {};
      lock.lock();
      all_right_ = all_right_ && right;
    }
  }

  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<SharedBytes, std::byte>> held_;
  bool is_closed_ = false;
  bool all_right_ = true;
  std::thread thread_{[this] { run(); }};
};

SharedBytes filled(SlotAllocator& allocator, std::size_t size, std::byte value) {
  const Buffer buffer = allocator.allocate(size);
  std::fill(buffer.bytes.begin(), buffer.bytes.end(), value);
  return {buffer.bytes, buffer.owner};
}

}  // namespace

TEST_CASE("other threads release buffers while new ones are allocated and packed",
          "[loader][allocator][threads]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  SlotAllocator allocator(worker->arena(), {hang_limit()});
  {
    Releaser first(50);
    Releaser second(50);
    for (int i = 0; i < 40'000; ++i) {
      CAPTURE(i);
      const auto value = static_cast<std::byte>(i);
      const std::size_t size = 100 + static_cast<std::size_t>(i) * 37 % 300;
      SharedBytes bytes = filled(allocator, size, value);
      if (i % 3 != 0) {
        (i % 3 == 1 ? first : second).take(bytes, value);
      }
      if (i % 2 == 0) {  // alone in it or not
        Sample sample;
        sample.fields.emplace_back("bytes", std::move(bytes));
        const PackedSample packed = allocator.pack(std::move(sample));
        REQUIRE(packed.slots.size() <= 2);
      }
    }
    CHECK(first.close());
    CHECK(second.close());
  }
  worker->arena().collect();
  CHECK(worker->arena().free_bytes() == worker->arena().touched_bytes());
  CHECK(worker->arena().slots_held() == 0);
}

TEST_CASE("reads of another thread happen before a buffer is sent without a copy",
          "[loader][allocator][threads]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  SlotAllocator allocator(worker->arena(), {hang_limit()});
  struct Work {
    SharedBytes bytes;
    char value;
  };
  std::atomic<Work*> mailbox = nullptr;
  std::atomic<bool> is_over = false;
  bool all_right = true;
  // It does not report when it is done; only the end of its holder does.
  std::thread reader([&] {
    while (!is_over.load(std::memory_order_relaxed)) {
      const std::unique_ptr<Work> work(mailbox.exchange(nullptr, std::memory_order_acquire));
      if (work != nullptr) {
        // A copy by memcpy(): ThreadSanitizer does not see reads of single constants.
        const std::string copy(work->bytes.text());
        all_right = all_right && copy == std::string(copy.size(), work->value);
      }
    }
  });
  int published = 0;
  for (int i = 0; i < 5'000; ++i) {
    const auto value = static_cast<std::byte>(i);
    SharedBytes bytes = filled(allocator, 200, value);
    while (mailbox.load(std::memory_order_relaxed) != nullptr) {
    }
    mailbox.store(new Work{bytes, static_cast<char>(value)}, std::memory_order_release);
    for (int spin = i % 8 * 200; spin > 0 && bytes.owner.use_count() > 1; --spin) {
    }
    Sample sample;
    sample.fields.emplace_back("bytes", std::move(bytes));
    PackedSample packed = allocator.pack(std::move(sample));
    published += packed.slots.size() == 1 && packed.encoded_bytes == 0 ? 1 : 0;
    for (const auto& slot : packed.slots) {  // as the parent may write to the memory of a batch
      std::fill(slot.bytes().begin(), slot.bytes().end(), std::byte{0xAA});
    }
  }
  while (mailbox.load(std::memory_order_relaxed) != nullptr) {
  }
  is_over = true;
  reader.join();
  CHECK(all_right);
  CHECK(published > 0);  // the relevant case occurred
}

TEST_CASE("a buffer is sent without a copy if only the sample holds it, however often",
          "[loader][allocator]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  SlotAllocator allocator(worker->arena(), {hang_limit()});
  const bool is_held = GENERATE(false, true);
  CAPTURE(is_held);
  for (int round = 0; round < 50; ++round) {
    Sample sample;
    SharedBytes whole = filled(allocator, 300'000, std::byte{7});
    SharedBytes other = filled(allocator, 1000, std::byte{8});
    const std::byte* const begin = whole.view.data();
    energon::List halves;
    for (const std::size_t at : {0, 150'000}) {
      halves.emplace_back(SharedBytes{whole.view.subspan(at, 150'000), whole.owner});
    }
    sample.set("halves", energon::Tuple{std::move(halves)});
    sample.set("other", other);
    sample.set("again", energon::Mapping{{"whole", energon::Value(whole)}});
    other = {};
    const SharedBytes held = is_held ? whole : SharedBytes();
    whole = {};
    const PackedSample packed = allocator.pack(std::move(sample));
    const bool is_sent = std::ranges::any_of(
        packed.slots, [begin](const auto& slot) { return slot.bytes().data() == begin; });
    REQUIRE(is_sent == !is_held);
    REQUIRE(packed.slots.size() == 2);
    if (is_held) {
      REQUIRE(std::ranges::all_of(held.view, [](std::byte byte) { return byte == std::byte{7}; }));
    }
  }
  worker->arena().collect();
  CHECK(worker->arena().free_bytes() == worker->arena().touched_bytes());
}

TEST_CASE("a worker that waits for memory gets what another thread releases",
          "[loader][allocator][threads]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  SlotAllocator allocator(worker->arena(), {hang_limit()});
  std::vector<SharedBytes> all;  // of the available megabyte
  for (int i = 0; i < 10; ++i) {
    all.push_back(filled(allocator, 100'000, std::byte{1}));
  }
  std::thread other([held = std::move(all)]() mutable {
    energon::wait_any({}, energon::deadline_after(std::chrono::milliseconds(20)));
    held.clear();
  });
  CHECK(allocator.allocate(900'000).bytes.size() == 900'000);
  other.join();
}

TEST_CASE("buffers may be released after the allocator and its arena, on any thread",
          "[loader][allocator][threads]") {
  SharedBytes here;
  SharedBytes there;
  SharedBytes before;
  {
    ParentEndpoint parent(small_channel());
    const auto worker = attach_here(parent);
    SlotAllocator allocator(worker->arena(), {hang_limit()});
    here = filled(allocator, 5000, std::byte{1});
    there = filled(allocator, 5000, std::byte{2});
    before = filled(allocator, 5000, std::byte{3});
    std::thread([&] { before = {}; }).join();  // put aside, and never requested
  }
  std::thread([&] { there = {}; }).join();
  here = {};
}

TEST_CASE("adjacent tensors are sent stacked, without a copy", "[loader][allocator]") {
  ParentEndpoint parent(small_channel());
  const auto worker = attach_here(parent);
  SlotAllocator allocator(worker->arena(), {hang_limit()});
  energon::BatchMemory memory(allocator);
  const bool is_ended = GENERATE(true, false);
  std::vector<Sample> rows(3);
  for (Sample& row : rows) {
    row.keys = {"key"};
    row.set("x", energon::new_tensor(energon::DType::kUInt8, {64, 64}, memory).tensor);
  }
  Sample batch;
  batch.fields = energon::testing::call_function(energon::stack_fields, rows);
  rows.clear();
  const std::byte* const begin = batch.tensor("x").data.view.data();
  if (is_ended) {
    memory.end_batch();
  }
  const PackedSample packed = allocator.pack(std::move(batch));
  REQUIRE(packed.slots.size() == 1);
  CHECK((packed.slots[0].bytes().data() == begin) == is_ended);
  CHECK(packed.inlined.empty() == !is_ended);  // with a copy, slot 0 exists
}

TEST_CASE("tensors in the memory of a call are the same with any number of workers",
          "[loader][allocator][fork]") {
  energon::TrainOptions options;
  options.batch_size = 4;
  options.task_encoder.encode_sample = MapFunction([](Sample sample, CallContext& context) {
    const SharedBytes bytes = sample.bytes("bin");
    energon::NewTensor tensor = energon::new_tensor(
        energon::DType::kUInt8, {static_cast<std::int64_t>(bytes.size())}, context.memory());
    std::ranges::copy(bytes.view, tensor.bytes.begin());
    sample.set("bin", tensor.tensor);
    return sample;
  });
  const LoaderFixture fixture(options, {60}, 640);
  const auto labels = take(*fixture.loader(0), 60);
  CHECK(take(*fixture.loader(1), 60) == labels);
  energon::LoaderOptions rare = energon::testing::never_checkpoint();
  CHECK(take(*fixture.loader(1, rare), 60) == labels);
}

TEST_CASE("a function may pass buffers to its own thread", "[loader][allocator][fork]") {
  energon::TrainOptions plain;
  plain.batch_size = 4;
  plain.shuffle_buffer_size = 8;
  plain.task_encoder.encode_sample =
      MapFunction([](Sample sample, CallContext&) { return sample; });
  energon::TrainOptions handing = plain;
  handing.task_encoder.encode_sample = MapFunction([](Sample sample, CallContext&) {
    static Releaser releaser(50);  // lives as long as the worker
    const SharedBytes bytes = sample.bytes("bin");
    releaser.take(bytes, bytes.view.front());
    return sample;
  });
  const LoaderFixture fixture(plain, {60}, 3000);
  const LoaderFixture handing_fixture(handing, {60}, 3000);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    CHECK(take(*handing_fixture.loader(2), 300) == take(*fixture.loader(2), 300));
  }
}
