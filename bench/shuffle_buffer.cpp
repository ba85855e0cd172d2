// What does a shuffle buffer of a million samples cost: memory, a draw, and saving its state?
//
// The order is run alone, without reading: the buffer holds references. Memory is the increase in
// allocated bytes after the buffer has turned over several times; the state is saved as in a
// worker, to the bytes that go into shared memory.

#include "wrappers/orders/shuffle_buffer.h"

#include <malloc.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/support/measure.h"
#include "bench/support/program.h"
#include "energon/order/sharder.h"
#include "energon/order/slice_order.h"
#include "io/error.h"
#include "wrappers/orders/repeat.h"

namespace energon::bench {
namespace {

constexpr double kMemoryTarget = 40e6;
constexpr double kSaveTarget = 20e-3;
constexpr int kTurns = 4;  // how often the buffer is drawn empty before measuring

std::unique_ptr<ShuffleBuffer> make_order(std::int64_t buffer_size) {
  const std::vector<std::int64_t> shards(40, buffer_size / 10);
  auto slices = std::make_unique<SliceOrder>(
      slice_bounds({.shard_counts = shards, .max_samples_per_sequence = 100}, 0),
      std::vector<std::int64_t>(), SliceOrderOptions{.seed = 1});
  return std::make_unique<ShuffleBuffer>(std::make_unique<Repeat>(std::move(slices), std::nullopt),
                                         buffer_size, 1);
}

double allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

double seconds_per_draw(Order& order, std::int64_t draws) {
  const Clock::time_point begin = Clock::now();
  if (order.skip(draws) != draws) {
    throw Error(ErrorCode::kInternal, "an endless order ended");
  }
  return seconds_since(begin) / static_cast<double>(draws);
}

double seconds_per_save(const ShuffleBuffer& order, std::size_t& bytes) {
  const Clock::time_point begin = Clock::now();
  bytes = encode_state(order.save_state()).size();
  return seconds_since(begin);
}

void verify(const ShuffleBuffer& order, std::int64_t buffer_size) {
  const auto restored = make_order(buffer_size);
  restored->restore_state(decode_state(encode_state(order.save_state())));
  if (restored->save_state() != order.save_state()) {
    throw Error(ErrorCode::kInternal, "a restored shuffle buffer differs");
  }
}

void run(std::int64_t size, const CommonOptions& options, Report& report) {
  const double before = allocated_bytes();
  const auto order = make_order(size);
  seconds_per_draw(*order, size * kTurns);
  const double memory = allocated_bytes() - before;
  verify(*order, size);

  std::size_t bytes = 0;
  seconds_per_save(*order, bytes);
  const auto measurements =
      measure_in_turn({{"draw", [&] { return seconds_per_draw(*order, size / 10); }},
                       {"save", [&] { return seconds_per_save(*order, bytes); }}},
                      options.repetitions);
  report.add({.name = "draw", .unit = "s", .measurement = measurements[0]});
  report.add({.name = "save",
              .unit = "s",
              .measurement = measurements[1],
              .more = {{"state_bytes", bytes}}});
  report.add({.name = "shuffle buffer of a million: memory",
              .unit = "B",
              .value = memory,
              .target = kMemoryTarget,
              .direction = Target::Direction::kAtMost});
  report.add({.name = "shuffle buffer of a million: save",
              .unit = "s",
              .value = measurements[1].median(),
              .target = kSaveTarget,
              .direction = Target::Direction::kAtMost});
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  std::int64_t samples = 1'000'000;
  return run_program(
      argc, argv, "shuffle_buffer", "What does a large shuffle buffer cost?",
      [&](CLI::App& app) {
        app.add_option("--samples", samples, "References in the buffer")
            ->capture_default_str()
            ->check(CLI::Range(std::int64_t{1000}, std::int64_t{1} << 28));
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("samples", samples);
        run(samples, options, report);
      });
}
