// How much can a message ring carry between two processes, and how fast does it wake its reader?
//
// Throughput: one process writes units as fast as the ring takes them (payload copied in), the
// other reads them (payload copied out). Latency: a unit goes to the other process, which sends it
// back; once back to back, and once after a pause in which the other process has fallen asleep, so
// that the first half of the round trip includes a wake-up by eventfd.

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "bench/support/bare_read.h"
#include "bench/support/program.h"
#include "energon/process/fork_server.h"
#include "energon/process/message_ring.h"
#include "io/error.h"

namespace energon::bench {
namespace {

constexpr std::uint64_t kCapacity = std::uint64_t{1} << 20;  // the default of a sample ring
constexpr std::array<std::uint64_t, 4> kUnitSizes{16, 256, 4096, 65536};
constexpr std::chrono::milliseconds kPause{1};  // longer than a reader spins
constexpr std::chrono::seconds kLimit{60};

/// Two rings between two processes, created before the fork.
struct Rings {
  Rings()
      : there_memory(SharedMemory::create(ring_footprint(kCapacity))),
        back_memory(SharedMemory::create(ring_footprint(kCapacity))),
        there(shared_range(there_memory, 0, ring_footprint(kCapacity))),
        back(shared_range(back_memory, 0, ring_footprint(kCapacity))) {
    format_ring(there, kCapacity);
    format_ring(back, kCapacity);
  }

  const std::shared_ptr<SharedMemory> there_memory;
  const std::shared_ptr<SharedMemory> back_memory;
  const SharedRange there;
  const SharedRange back;
  const std::shared_ptr<Doorbell> parent_bell = std::make_shared<Doorbell>();
  const std::shared_ptr<Doorbell> child_bell = std::make_shared<Doorbell>();
};

/// The child's task; the payload of the spawn request.
struct Task {
  enum class Kind : std::uint64_t { kProduce, kEcho } kind = Kind::kProduce;
  std::uint64_t unit_bytes = 0;
};

/// Word `word` of unit `unit`.
std::uint64_t pattern(std::uint64_t unit, std::uint64_t word) {
  return unit * 0x9E3779B97F4A7C15U + word;
}

void fill(std::uint64_t unit, std::span<std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = pattern(unit, at);
    std::memcpy(bytes.data() + at, &word, 8);
  }
}

void require(RingStatus status) {
  if (status != RingStatus::kItem) {
    throw Error(ErrorCode::kInternal, "the other side of the ring is gone");
  }
}

/// Units until the reader closes. Only the first kVerified units get fresh content: the others
/// measure the copy alone, with their number in the first word.
constexpr std::uint64_t kVerified = 1000;

void produce(RingWriter& writer, std::uint64_t unit_bytes, const Wait& wait) {
  std::vector<std::byte> payload(unit_bytes);
  for (std::uint64_t unit = 0;; ++unit) {
    if (unit < kVerified) {
      fill(unit, payload);
    }
    std::memcpy(payload.data(), &unit, sizeof(unit));
    const RingSpace space = writer.begin(unit_bytes, wait);
    if (space.status != RingStatus::kItem) {
      return;
    }
    std::memcpy(space.bytes.data(), payload.data(), unit_bytes);
    writer.commit();
  }
}

void echo(RingReader& reader, RingWriter& writer, const Wait& wait) {
  while (true) {
    const RingUnit unit = reader.read(wait);
    if (unit.status != RingStatus::kItem) {
      return;
    }
    const RingSpace space = writer.begin(unit.bytes.size(), wait);
    if (space.status != RingStatus::kItem) {
      return;
    }
    std::memcpy(space.bytes.data(), unit.bytes.data(), unit.bytes.size());
    reader.release();
    writer.commit();
  }
}

int run_child(const Rings& rings, const WorkerStart& start) {
  Task task;
  std::memcpy(&task, start.payload.data(), sizeof(task));
  const Wait wait{.deadline = deadline_after(kLimit), .peer_gone = start.watch->descriptors()};
  RingReader reader(rings.there, rings.parent_bell, rings.child_bell);
  RingWriter writer(rings.back, rings.parent_bell, rings.child_bell);
  switch (task.kind) {
    case Task::Kind::kProduce:
      produce(writer, task.unit_bytes, wait);
      break;
    case Task::Kind::kEcho:
      echo(reader, writer, wait);
      break;
  }
  return 0;
}

/// A child process that runs `task`, and this side's ends of the rings.
class Partner {
 public:
  explicit Partner(const Task& task)
      : server_([this](WorkerStart& start) { return run_child(rings_, start); },
                {.keep_descriptors = {rings_.parent_bell->fd(), rings_.child_bell->fd()}}),
        process_(
            server_.spawn({.payload = std::as_bytes(std::span(&task, 1))}, deadline_after(kLimit))),
        peer_gone_{process_.fd()},
        writer_(rings_.there, rings_.child_bell, rings_.parent_bell),
        reader_(rings_.back, rings_.child_bell, rings_.parent_bell) {}

  ~Partner() {
    writer_.close();
    reader_.close();
  }
  Partner(const Partner&) = delete;
  Partner& operator=(const Partner&) = delete;

  RingWriter& writer() { return writer_; }
  RingReader& reader() { return reader_; }
  Wait wait() const { return {.deadline = deadline_after(kLimit), .peer_gone = peer_gone_}; }

 private:
  Rings rings_;
  ForkServer server_;
  WorkerProcess process_;
  std::array<int, 1> peer_gone_;
  RingWriter writer_;
  RingReader reader_;
};

/// Units/s from the child to here.
double units_per_second(std::uint64_t unit_bytes, double seconds) {
  Partner partner({Task::Kind::kProduce, unit_bytes});
  std::vector<std::byte> copy(unit_bytes);
  std::vector<std::byte> expected(unit_bytes);
  std::uint64_t units = 0;
  const auto take = [&] {
    const RingUnit unit = partner.reader().read(partner.wait());
    require(unit.status);
    std::memcpy(copy.data(), unit.bytes.data(), unit.bytes.size());
    partner.reader().release();
    std::uint64_t number = 0;
    std::memcpy(&number, copy.data(), sizeof(number));
    if (unit.bytes.size() != unit_bytes || number != units) {
      throw Error(ErrorCode::kInternal, fmt::format("unit {} is wrong", units));
    }
    ++units;
  };
  while (units < kVerified) {
    take();
    fill(units - 1, expected);
    const std::uint64_t number = units - 1;
    std::memcpy(expected.data(), &number, sizeof(number));
    if (copy != expected) {
      throw Error(ErrorCode::kInternal, fmt::format("unit {} has wrong bytes", number));
    }
  }
  const Clock::time_point begin = Clock::now();
  const std::uint64_t first = units;
  double elapsed = 0;
  while (elapsed < seconds) {
    for (int i = 0; i < 64; ++i) {
      take();
    }
    elapsed = seconds_since(begin);
  }
  return static_cast<double>(units - first) / elapsed;
}

/// Seconds of `count` round trips.
std::vector<double> round_trips(std::uint64_t unit_bytes, int count,
                                std::chrono::milliseconds pause) {
  Partner partner({Task::Kind::kEcho, unit_bytes});
  std::vector<std::byte> payload(unit_bytes);
  std::vector<double> seconds;
  for (int i = 0; i < count; ++i) {
    fill(static_cast<std::uint64_t>(i), payload);
    if (pause.count() > 0) {
      std::this_thread::sleep_for(pause);
    }
    const Clock::time_point begin = Clock::now();
    const RingSpace space = partner.writer().begin(unit_bytes, partner.wait());
    require(space.status);
    std::memcpy(space.bytes.data(), payload.data(), unit_bytes);
    partner.writer().commit();
    const RingUnit unit = partner.reader().read(partner.wait());
    require(unit.status);
    seconds.push_back(seconds_since(begin));
    if (!std::equal(unit.bytes.begin(), unit.bytes.end(), payload.begin(), payload.end())) {
      throw Error(ErrorCode::kInternal, fmt::format("echo {} has wrong bytes", i));
    }
    partner.reader().release();
  }
  return seconds;
}

void report_throughput(const CommonOptions& options, double seconds, Report& report) {
  std::vector<Variant> variants;
  for (const std::uint64_t size : kUnitSizes) {
    variants.push_back({fmt::format("units of {} B", size),
                        [size, seconds] { return units_per_second(size, seconds); }});
  }
  const auto measurements = measure_in_turn(variants, options.repetitions);
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    report.add({.name = measurements[i].name,
                .unit = "units/s",
                .measurement = measurements[i],
                .more = {{"unit_bytes", kUnitSizes[i]},
                         {"bytes_per_second",
                          measurements[i].median() * static_cast<double>(kUnitSizes[i])}}});
  }
}

void report_latency(const CommonOptions& options, const std::string& what, int count,
                    std::chrono::milliseconds pause, Report& report) {
  for (const std::uint64_t size : kUnitSizes) {
    Measurement medians{fmt::format("round trip {}, {} B", what, size), {}};
    std::vector<double> p99;
    round_trips(size, count, pause);
    for (int i = 0; i < options.repetitions; ++i) {
      const std::vector<double> seconds = round_trips(size, count, pause);
      medians.values.push_back(quantile(seconds, 0.5));
      p99.push_back(quantile(seconds, 0.99));
    }
    report.add({.name = medians.name,
                .unit = "s",
                .measurement = medians,
                .more = {{"unit_bytes", size}, {"p99_seconds", quantile(p99, 0.5)}}});
  }
}

}  // namespace
}  // namespace energon::bench

int main(int argc, char** argv) {
  using namespace energon::bench;
  double seconds = 0.5;
  return run_program(
      argc, argv, "ring",
      "What does a message ring between two processes carry, and how fast does it wake its reader?",
      [&](CLI::App& app) {
        app.add_option("--seconds", seconds, "Length of a repetition of throughput")
            ->capture_default_str()
            ->check(CLI::PositiveNumber);
      },
      [&](const CommonOptions& options, Report& report) {
        report.setting("ring_bytes", kCapacity);
        report_throughput(options, seconds, report);
        report_latency(options, "at once", 5000, std::chrono::milliseconds(0), report);
        report_latency(options, "after a sleep", 200, kPause, report);
      });
}
