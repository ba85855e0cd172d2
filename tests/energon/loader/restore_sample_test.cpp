// restore_sample() called often, and by threads that end.

#include <pthread.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/loader/delivered_items.h"
#include "energon/sample/buffer_allocator.h"
#include "tests/energon/loader/loader_fixture.h"

namespace {

using energon::CallContext;
using energon::RestoreKey;
using energon::Sample;
using energon::TrainOptions;
using energon::testing::LoaderFixture;

// Runs `body` in a thread whose stack is too large to be kept for the next thread: no memory of the
// thread can be used after it has ended.
void run_in_thread_that_leaves_nothing(std::function<void()> body) {
  constexpr std::size_t kStackBytes = std::size_t{96} << 20;
  pthread_attr_t attributes;
  REQUIRE(::pthread_attr_init(&attributes) == 0);
  REQUIRE(::pthread_attr_setstacksize(&attributes, kStackBytes) == 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<std::function<void()>*>(argument))();
    return nullptr;
  };
  const int created = ::pthread_create(&thread, &attributes, run, &body);
  const int joined = created == 0 ? ::pthread_join(thread, nullptr) : created;
  REQUIRE(joined == 0);  // only now, because `body` has assertions, too
  ::pthread_attr_destroy(&attributes);
}

// Each sample gets a tensor of 32 KiB in the memory of the batch.
TrainOptions making_tensors() {
  TrainOptions options;
  options.batch_size = 2;
  options.task_encoder.encode_sample =
      energon::MapFunction([](Sample sample, CallContext& context) {
        sample.fields = {{"made", energon::new_tensor(energon::DType::kUInt8,
                                                      {std::int64_t{32} << 10}, context.memory())
                                      .tensor}};
        return sample;
      });
  return options;
}

std::vector<RestoreKey> first_keys(const LoaderFixture& fixture, int count) {
  const auto loader = fixture.loader(0);
  std::vector<RestoreKey> keys;
  for (int i = 0; i < count; ++i) {
    keys.push_back(loader->next()->restore_key);
  }
  return keys;
}

}  // namespace

TEST_CASE("restore_sample() works after the thread that called it has ended", "[loader]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 5});
  const std::vector<RestoreKey> keys = first_keys(fixture, 3);
  const auto loader = fixture.loader(0);
  run_in_thread_that_leaves_nothing([&] { loader->restore_sample(keys[0]); });
  run_in_thread_that_leaves_nothing([&] { loader->restore_sample(keys[1]); });
  CHECK(loader->restore_sample(keys[2]).restore_key == keys[2]);
}

TEST_CASE("the items of a state continue after the thread that requested them has ended",
          "[loader]") {
  const LoaderFixture fixture({.batch_size = 2, .shuffle_buffer_size = 5});
  const std::vector<RestoreKey> keys = first_keys(fixture, 3);
  const auto loader = fixture.loader(0);
  const auto state = loader->save_state_rank();
  std::unique_ptr<energon::DeliveredItems> items;
  run_in_thread_that_leaves_nothing([&] {
    items = std::make_unique<energon::DeliveredItems>(state, fixture.pipeline());
    CHECK(items->next()->restore_key == keys[0]);
  });
  CHECK(items->next()->restore_key == keys[1]);
  CHECK(items->next()->restore_key == keys[2]);
}

TEST_CASE("a restored batch holds no memory of other batches", "[loader]") {
  const LoaderFixture fixture(making_tensors());
  const std::vector<RestoreKey> keys = first_keys(fixture, 2);
  const auto loader = fixture.loader(0);
  std::shared_ptr<const void> last;
  for (int i = 0; i < 20; ++i) {
    CAPTURE(i);
    const Sample batch = loader->restore_sample(keys[i % 2]);
    const std::shared_ptr<const void> owner =
        std::get<energon::Tensor>(batch.fields.at(0).second.base()).data.owner;
    REQUIRE(owner != nullptr);
    CHECK(owner != last);
    last = owner;
  }
}
