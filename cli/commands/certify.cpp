// energon certify: what a job delivered, global batch by global batch, from the dumps of its ranks.
//
// A line of `energon dump --certificate` says which micro batch of the job it is, whatever layout
// it was made on. So the dumps of all ranks, also of several layouts one after the other, make up
// the stream of the job, and two jobs that read the same data give the same output.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/delivered_job.h"
#include "cli/job/order_log.h"
#include "cli/show/output.h"
#include "energon/checkpoint/certificate.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

constexpr std::int64_t kLargestGlobalBatch = std::numeric_limits<std::int32_t>::max();

// The error of `check`, with what to do about it.
template <class Check>
void check_with_advice(const Check& check, std::string_view advice) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; {}", error.message(), advice), error.context());
  }
}

// The global batches from the one of micro batch `first` on, up to the first one that is not whole.
// Throws Error (kMismatch) if that is not because the dumps end there.
void print_epoch(const DeliveredEpoch& delivered, std::int64_t first, std::int64_t size) {
  if (const auto number = after_end(delivered)) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("micro batch {} of epoch {} is there, and a line that says that its "
                            "logical shard ended before: these are not dumps of one job",
                            *number, delivered.epoch));
  }
  const GlobalBatches batches = global_batches(delivered, size, first);
  for (const GlobalBatch& batch : batches.whole) {
    output().print(R"({{"epoch":{},"global_batch":{},"micro_batches":{},"certificate":"{}"}})"
                   "\n",
                   delivered.epoch, batch.number, batch.micro_batches,
                   to_hex(batch.certificate.digest));
  }
  if (batches.left_out) {
    print_warning(fmt::format("global batch {} of epoch {} is left out: the dumps end within it",
                              *batches.left_out, delivered.epoch));
  }
  check_with_advice([&] { check_none_missing(batches); },
                    "give the dumps of all ranks, from the beginning of a global batch");
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
  for (const auto& entry : job.epochs()) {
    const std::int64_t epoch = entry.first;
    const DeliveredEpoch& delivered = entry.second;
    if (epoch != expected++) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("there is nothing of epoch {}; give all dumps", expected - 1));
    }
    // Dumps may begin later in the run than the job, but then with a whole global batch.
    const bool is_first = epoch == first_epoch;
    if (is_first && delivered.micro_batches.empty()) {
      continue;
    }
    print_epoch(delivered, is_first ? delivered.micro_batches.begin()->first / size * size : 0,
                size);
    if (epoch != last_epoch) {
      check_with_advice([&] { check_ended(delivered); }, "give the dumps of all ranks");
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
