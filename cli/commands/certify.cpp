// energon certify: certifies what a job delivered, global batch by global batch, from the output of
// its ranks.
//
// A line of `energon run --certificate` contains the index of its micro batch in the job, which
// does not depend on the layout. So the output of all ranks, also on several layouts in turn, makes
// up the stream of the job, and two jobs that read the same data give the same output.

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/json_lines.h"
#include "cli/output.h"
#include "energon/checkpoint/certificate.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

// --- DeliveredJob ---

/// What a job delivered, read from the output of its ranks (energon run --certificate
/// --logical-shards). All numbers are at most kLargestNumber (cli/json_lines.h), including the
/// numbers of later micro batches.
class DeliveredJob {
 public:
  /// Adds the output of a run at `path`; warns of an incomplete last line. Throws Error: kIo,
  /// kNotFound, kInvalidArgument if it is not such output, kMismatch if it is from another job; the
  /// last two name the line.
  void read(const std::string& path);

  std::int64_t logical_shards() const { return logical_shards_.value_or(1); }
  const std::map<std::int64_t, DeliveredEpoch>& epochs() const { return epochs_; }

 private:
  void add(const nlohmann::json& line);
  DeliveredEpoch& epoch_of(std::int64_t epoch);
  void add_end_of_epoch(const nlohmann::json& line);

  std::optional<std::int64_t> logical_shards_;
  std::map<std::int64_t, DeliveredEpoch> epochs_;
};

using Json = nlohmann::json;

constexpr std::int64_t kMostShards = std::numeric_limits<std::int32_t>::max();

std::vector<std::int64_t> numbers_in(const Json& line, const char* name) {
  const Json& list = field(line, name);
  if (!list.is_array()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a list of numbers, found {}", name, list.type_name()));
  }
  std::vector<std::int64_t> numbers;
  for (const Json& value : list) {
    numbers.push_back(to_number(value, name));
  }
  return numbers;
}

std::uint64_t digest_in(const Json& line, const char* name) {
  const std::string text = text_in(line, name);
  const char* const end = text.data() + text.size();
  std::uint64_t digest = 0;
  if (text.size() != 16 || std::from_chars(text.data(), end, digest, 16).ptr != end) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("'{}' must be 16 hexadecimal digits, found '{}'", name, printable(text)));
  }
  return digest;
}

void DeliveredJob::read(const std::string& path) {
  const LastLine last = read_json_lines(path, "a run with --certificate and --logical-shards",
                                        [this](const Json& line) { add(line); });
  if (last == LastLine::kCut) {
    print_warning(cut_line_warning(path));
  }
}

void DeliveredJob::add(const Json& line) {
  const std::int64_t shards = number_in(line, "logical_shards");
  if (shards == 0 || shards > kMostShards) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a job cannot have {} logical shards", shards));
  }
  if (logical_shards_.value_or(shards) != shards) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("the job has {} logical shards, but {} on earlier lines", shards,
                            logical_shards()));
  }
  logical_shards_ = shards;
  if (line.contains("end_of_epoch")) {
    add_end_of_epoch(line);
    return;
  }
  const std::int64_t epoch = number_in(line, "epoch");
  const std::int64_t number = number_in(line, "micro_batch");
  const Certificate certificate{.digest = digest_in(line, "batch_certificate"),
                                .samples = std::ssize(keys_in(line))};
  const auto [place, is_new] = epoch_of(epoch).micro_batches.try_emplace(number, certificate);
  if (!is_new && place->second != certificate) {
    throw Error(ErrorCode::kMismatch, fmt::format("micro batch {} of epoch {} occurred before with "
                                                  "other samples: these are not runs of one job",
                                                  number, epoch));
  }
}

DeliveredEpoch& DeliveredJob::epoch_of(std::int64_t epoch) {
  return epochs_
      .try_emplace(epoch, DeliveredEpoch{.epoch = epoch, .logical_shards = logical_shards()})
      .first->second;
}

void DeliveredJob::add_end_of_epoch(const Json& line) {
  const std::int64_t epoch = number_in(line, "end_of_epoch");
  const std::vector<std::int64_t> shards = numbers_in(line, "of_logical_shards");
  const std::vector<std::int64_t> counts = numbers_in(line, "micro_batches");
  if (shards.size() != counts.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'micro_batches' has {} numbers for {} logical shards", counts.size(),
                            shards.size()));
  }
  DeliveredEpoch& delivered = epoch_of(epoch);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] >= logical_shards() || counts[i] > kLargestNumber / logical_shards()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("logical shard {} of {} cannot have {} micro batches", shards[i],
                              logical_shards(), counts[i]));
    }
    const std::int64_t before = delivered.ended.try_emplace(shards[i], counts[i]).first->second;
    if (before != counts[i]) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("epoch {} of logical shard {} ended after {} micro batches before, "
                              "now after {}: these are not runs of one job",
                              epoch, shards[i], before, counts[i]));
    }
  }
}

// --- The command ---

constexpr std::int64_t kLargestGlobalBatch = std::numeric_limits<std::int32_t>::max();

// Runs `check` and appends `advice` to its error.
template <class Check>
void check_with_advice(const Check& check, std::string_view advice) {
  try {
    check();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}; {}", error.message(), advice), error.context());
  }
}

// Prints the complete global batches, starting with the one of micro batch `first`. Throws Error
// (kMismatch) if an incomplete one is not at the end of the output.
void print_epoch(const DeliveredEpoch& delivered, std::int64_t first, std::int64_t size) {
  if (const auto number = after_end(delivered)) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("micro batch {} of epoch {} comes after the end of its logical shard: "
                            "these are not runs of one job",
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
    print_warning(fmt::format("global batch {} of epoch {} is left out: the output ends within it",
                              *batches.left_out, delivered.epoch));
  }
  check_with_advice([&] { check_none_missing(batches); },
                    "give the output of all ranks, from the start of a global batch");
}

struct CertifyFlags {
  std::vector<std::string> files;
  std::optional<std::int64_t> global_batch;
};

int run_certify(const CertifyFlags& flags) {
  DeliveredJob job;
  for (const std::string& file : expand_patterns(flags.files, "file with the output of a run")) {
    job.read(file);
  }
  if (job.epochs().empty()) {
    throw Error(ErrorCode::kInvalidArgument, "the files contain no lines");
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
                  fmt::format("epoch {} is missing; give the output of all runs", expected - 1));
    }
    // The output may start later than the job, but then with a whole global batch.
    const bool is_first = epoch == first_epoch;
    if (is_first && delivered.micro_batches.empty()) {
      continue;
    }
    print_epoch(delivered, is_first ? delivered.micro_batches.begin()->first / size * size : 0,
                size);
    if (epoch != last_epoch) {
      check_with_advice([&] { check_ended(delivered); }, "give the output of all ranks");
    }
  }
  return kExitOk;
}

}  // namespace

void add_certify(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand("certify",
                                               "Print a certificate for each global batch that a "
                                               "job delivered, from the output of its ranks\n"
                                               "(energon run --certificate --logical-shards L). "
                                               "Jobs that read the same data print the same");
  const auto flags = std::make_shared<CertifyFlags>();
  command
      ->add_option("RUNS", flags->files,
                   "Files with the output of energon run, or glob patterns: all ranks and layouts "
                   "of the job, in any order")
      ->required();
  command
      ->add_option("--global-batch", flags->global_batch,
                   "Micro batches per global batch [default: one per logical shard]")
      ->check(CLI::Range(std::int64_t{1}, kLargestGlobalBatch));
  on_run(*command, flags, run, run_certify);
}

}  // namespace energon::cli
