// energon certify: what a job delivered, global batch by global batch, from the dumps of its ranks.
//
// A line of `energon dump --certificate` says which micro batch of the job it is, whatever layout
// it was made on. So the dumps of all ranks, also of several layouts one after the other, make up
// the stream of the job, and two jobs that read the same data give the same output.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/command.h"
#include "cli/job/delivered_job.h"
#include "cli/job/order_log.h"
#include "cli/show/output.h"
#include "energon/checkpoint/certificate.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

constexpr std::size_t kMostNamed = 20;  // micro batches or logical shards in an error
constexpr std::int64_t kLargestGlobalBatch = std::numeric_limits<std::int32_t>::max();

// One epoch of a job of `shards` logical shards.
class EpochCertifier {
 public:
  EpochCertifier(const DeliveredEpoch& delivered, std::int64_t epoch, std::int64_t shards)
      : delivered_(delivered), epoch_(epoch), shards_(shards) {}

  /// Prints the global batches from the one of micro batch `first` on, up to the first one that is
  /// not whole. Throws Error (kMismatch) if that is not because the dumps end there.
  void print(std::int64_t first, std::int64_t size) const;
  /// Throws Error (kMismatch) unless the dumps say of all logical shards that they ended the epoch.
  void check_ended() const;

 private:
  bool is_after_end(std::int64_t number) const;
  bool has_more(std::int64_t begin, std::int64_t end) const;
  std::int64_t last() const;
  std::int64_t count_missing(std::int64_t first) const;

  const DeliveredEpoch& delivered_;
  const std::int64_t epoch_;
  const std::int64_t shards_;
};

// Whether no micro batch `number` came or will come: its logical shard has ended the epoch.
bool EpochCertifier::is_after_end(std::int64_t number) const {
  const auto ended = delivered_.ended.find(number % shards_);
  return ended != delivered_.ended.end() && number / shards_ >= ended->second;
}

// Whether one of the micro batches [begin, end) may still come. All logical shards have a number
// among the first `shards_` of them.
bool EpochCertifier::has_more(std::int64_t begin, std::int64_t end) const {
  for (std::int64_t number = begin; number < std::min(end, begin + shards_); ++number) {
    if (!is_after_end(number)) {
      return true;
    }
  }
  return false;
}

// The last micro batch that came or must have come; -1: none.
std::int64_t EpochCertifier::last() const {
  std::int64_t last =
      delivered_.micro_batches.empty() ? -1 : delivered_.micro_batches.rbegin()->first;
  for (const auto& [shard, count] : delivered_.ended) {
    last = std::max(last, count == 0 ? -1 : (count - 1) * shards_ + shard);
  }
  return last;
}

// How many of the micro batches from `first` on should have come and did not.
std::int64_t EpochCertifier::count_missing(std::int64_t first) const {
  const std::int64_t last = this->last();
  std::int64_t count = last - first + 1 - std::ssize(delivered_.micro_batches);
  for (const auto& [shard, turns] : delivered_.ended) {
    const std::int64_t first_turn = first > shard ? (first - shard - 1) / shards_ + 1 : 0;
    const std::int64_t turns_to_last = last < shard ? 0 : (last - shard) / shards_ + 1;
    count -= std::max<std::int64_t>(0, turns_to_last - std::max(turns, first_turn));
  }
  return count;
}

void EpochCertifier::print(std::int64_t first, std::int64_t size) const {
  for (const auto& [number, certificate] : delivered_.micro_batches) {
    if (is_after_end(number)) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("micro batch {} of epoch {} is there, and a line that says that its "
                              "logical shard ended before: these are not dumps of one job",
                              number, epoch_));
    }
  }
  const std::int64_t last = this->last();
  std::vector<std::int64_t> missing;  // the first ones
  std::vector<Certificate> batch;
  auto next = delivered_.micro_batches.begin();
  for (std::int64_t number = first; number <= last && missing.size() < kMostNamed; ++number) {
    if (next != delivered_.micro_batches.end() && next->first == number) {
      batch.push_back(next->second);
      ++next;
    } else if (!is_after_end(number)) {
      missing.push_back(number);
    }
    const std::int64_t end = (number / size + 1) * size;
    if (!missing.empty() || (number != last && number + 1 != end)) {
      continue;
    }
    if (has_more(number + 1, end)) {
      print_warning(fmt::format("global batch {} of epoch {} is left out: the dumps end within it",
                                number / size, epoch_));
    } else {
      output().print(R"({{"epoch":{},"global_batch":{},"micro_batches":{},"certificate":"{}"}})"
                     "\n",
                     epoch_, number / size, batch.size(),
                     to_hex(certificate_of_global_batch(batch).digest));
    }
    batch.clear();
  }
  if (!missing.empty()) {
    const std::int64_t count = count_missing(first);
    throw Error(ErrorCode::kMismatch,
                fmt::format("{} micro batches of epoch {} are missing: {}{}; give the dumps of all "
                            "ranks, from the beginning of a global batch",
                            count, epoch_, fmt::join(missing, ", "),
                            std::ssize(missing) < count ? ", …" : ""));
  }
}

void EpochCertifier::check_ended() const {
  const std::int64_t count = shards_ - std::ssize(delivered_.ended);
  if (count == 0) {
    return;
  }
  std::vector<std::int64_t> open;  // the first ones
  for (std::int64_t shard = 0; shard < shards_ && open.size() < kMostNamed; ++shard) {
    if (!delivered_.ended.contains(shard)) {
      open.push_back(shard);
    }
  }
  throw Error(
      ErrorCode::kMismatch,
      fmt::format("the end of epoch {} is missing, of {} logical shards: {}{}; give the "
                  "dumps of all ranks",
                  epoch_, count, fmt::join(open, ", "), std::ssize(open) < count ? ", …" : ""));
}

struct CertifyFlags {
  std::vector<std::string> files;
  std::optional<std::int64_t> global_batch;
};

int run_certify(const CertifyFlags& flags) {
  DeliveredJob job;
  for (const std::string& file : expand_patterns(flags.files, "dump")) {
    job.read(file);
  }
  if (job.epochs().empty()) {
    throw Error(ErrorCode::kInvalidArgument, "there is no line in these dumps");
  }
  const std::int64_t size = flags.global_batch.value_or(job.logical_shards());
  const std::int64_t first_epoch = job.epochs().begin()->first;
  const std::int64_t last_epoch = job.epochs().rbegin()->first;
  std::int64_t expected = first_epoch;
  for (const auto& [epoch, delivered] : job.epochs()) {
    if (epoch != expected++) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("there is nothing of epoch {}; give all dumps", expected - 1));
    }
    // Dumps may begin later in the run than the job, but then with a whole global batch.
    const bool is_first = epoch == first_epoch;
    if (is_first && delivered.micro_batches.empty()) {
      continue;
    }
    const EpochCertifier certifier(delivered, epoch, job.logical_shards());
    certifier.print(is_first ? delivered.micro_batches.begin()->first / size * size : 0, size);
    if (epoch != last_epoch) {
      certifier.check_ended();
    }
  }
  return kExitOk;
}

}  // namespace

void add_certify(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "certify",
      "Print a certificate for each global batch that a job delivered, from the dumps of its "
      "ranks\n(energon dump --certificate --logical-shards L); jobs that read the same data print "
      "the same");
  const auto flags = std::make_shared<CertifyFlags>();
  command
      ->add_option("DUMPS", flags->files,
                   "Dumps or patterns of them: of all ranks, in any order, of all layouts that the "
                   "job had")
      ->required();
  command
      ->add_option("--global-batch", flags->global_batch,
                   "Micro batches of a global batch; default: one of each logical shard")
      ->check(CLI::Range(std::int64_t{1}, kLargestGlobalBatch));
  command->callback([flags, &run] { run = [flags] { return run_certify(*flags); }; });
}

}  // namespace energon::cli
