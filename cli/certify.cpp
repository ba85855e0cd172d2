// energon certify: what a job delivered, global batch by global batch, from the dumps of its ranks.
//
// A line of `energon dump --certificate` says which micro batch of the job it is, whatever layout
// it was made on. So the dumps of all ranks, also of several layouts one after the other, make up
// the stream of the job, and two jobs that read the same data give the same output.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/at_least.h"
#include "cli/command.h"
#include "cli/order_log.h"
#include "cli/output.h"
#include "energon/loader/certificate.h"
#include "io/error.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostNamed = 20;  // micro batches in an error

struct Epoch {
  std::map<std::int64_t, Certificate> micro_batches;  // by their number in the epoch
  std::map<std::int64_t, std::int64_t> last;          // number of each logical shard's last one
  std::set<std::int64_t> ended;                       // logical shards that said so
};

// What the dumps say of a job.
class DeliveredJob {
 public:
  void read(const std::string& path);

  std::int64_t logical_shards() const { return logical_shards_.value_or(1); }
  const std::map<std::int64_t, Epoch>& epochs() const { return epochs_; }
  /// Whether no micro batch `number` of `epoch` came or will come: its logical shard has ended it.
  bool is_after_end(std::int64_t epoch, std::int64_t number) const;

 private:
  void add(const Json& line);

  std::optional<std::int64_t> logical_shards_;
  std::map<std::int64_t, Epoch> epochs_;
  std::map<std::int64_t, std::int64_t> newest_epoch_;  // of each logical shard
};

std::int64_t number_in(const Json& line, const char* name) {
  const Json& value = line.at(name);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a whole number from 0, got {}", name, value.dump()));
  }
  return value.get<std::int64_t>();
}

std::uint64_t digest_in(const Json& line, const char* name) {
  const auto text = line.at(name).get<std::string>();
  const char* const end = text.data() + text.size();
  std::uint64_t digest = 0;
  if (text.size() != 16 || std::from_chars(text.data(), end, digest, 16).ptr != end) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be 16 hexadecimal digits, got '{}'", name, printable(text)));
  }
  return digest;
}

void DeliveredJob::add(const Json& line) {
  const std::int64_t shards = number_in(line, "logical_shards");
  if (shards == 0 || logical_shards_.value_or(shards) != shards) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("it is of a job of {} logical shards, the lines before of one of {}",
                            shards, logical_shards()));
  }
  logical_shards_ = shards;
  if (line.contains("end_of_epoch")) {
    const auto ended = line.at("of_logical_shards").get<std::vector<std::int64_t>>();
    epochs_[number_in(line, "end_of_epoch")].ended.insert(ended.begin(), ended.end());
    return;
  }
  const std::int64_t epoch = number_in(line, "epoch");
  const std::int64_t number = number_in(line, "micro_batch");
  const std::int64_t shard = number % shards;
  const Certificate certificate{.digest = digest_in(line, "batch_certificate"),
                                .samples = std::ssize(line.at("keys"))};
  const auto [place, is_new] = epochs_[epoch].micro_batches.try_emplace(number, certificate);
  if (!is_new && place->second != certificate) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("micro batch {} of epoch {} was there before, with other samples: these "
                    "are not dumps of one job",
                    number, epoch));
  }
  std::int64_t& last = epochs_[epoch].last[shard];
  last = std::max(last, number);
  std::int64_t& newest = newest_epoch_[shard];
  newest = std::max(newest, epoch);
}

void DeliveredJob::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::kNotFound, "cannot read the dump", {.path = path});
  }
  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    const Json line = Json::parse(text, nullptr, false);
    if (line.is_discarded() && file.eof()) {  // without an end of line: killed, or still running
      print_warning(fmt::format("{}: the last line is not complete", printable(path)));
      return;
    }
    const auto wrong = [&](ErrorCode code, std::string_view problem) {
      return Error(code, fmt::format("line {}: {}", number, printable(problem)), {.path = path});
    };
    try {
      add(line);
    } catch (const Error& error) {
      throw wrong(error.code(), error.message());
    } catch (const Json::exception&) {
      throw wrong(ErrorCode::kInvalidArgument,
                  "this is no line of `energon dump --certificate` with --logical-shards");
    }
  }
}

bool DeliveredJob::is_after_end(std::int64_t epoch, std::int64_t number) const {
  const std::int64_t shard = number % logical_shards();
  const Epoch& delivered = epochs_.at(epoch);
  const auto last = delivered.last.find(shard);
  if (last != delivered.last.end() && number < last->second) {
    return false;
  }
  const auto newest = newest_epoch_.find(shard);
  return delivered.ended.contains(shard) ||
         (newest != newest_epoch_.end() && newest->second > epoch);
}

// Prints the global batches of an epoch up to the first one that is not whole. Throws Error
// (kMismatch) if that is not because the dumps end there.
void certify_epoch(const DeliveredJob& job, std::int64_t epoch, std::int64_t size) {
  const std::map<std::int64_t, Certificate>& delivered = job.epochs().at(epoch).micro_batches;
  if (delivered.empty()) {
    return;
  }
  // Dumps may begin later in the run than the job, but then with a whole global batch.
  const bool is_first = epoch == job.epochs().begin()->first;
  const bool is_last = epoch == job.epochs().rbegin()->first;
  const std::int64_t last = delivered.rbegin()->first;
  std::vector<std::int64_t> missing;
  for (std::int64_t batch = is_first ? delivered.begin()->first / size : 0; batch * size <= last;
       ++batch) {
    std::vector<Certificate> micro_batches;
    bool is_whole = true;
    for (std::int64_t number = batch * size; number < (batch + 1) * size; ++number) {
      if (const auto found = delivered.find(number); found != delivered.end()) {
        micro_batches.push_back(found->second);
      } else if (!job.is_after_end(epoch, number)) {
        is_whole = false;
        if (number < last || !is_last) {
          missing.push_back(number);
        }
      }
    }
    if (is_whole && missing.empty()) {
      output().print(R"({{"epoch":{},"global_batch":{},"micro_batches":{},"certificate":"{}"}})"
                     "\n",
                     epoch, batch, micro_batches.size(),
                     to_hex(certificate_of_global_batch(micro_batches).digest));
    } else if (missing.empty()) {
      print_warning(fmt::format("global batch {} of epoch {} is left out: the dumps end within it",
                                batch, epoch));
    }
  }
  if (!missing.empty()) {
    const std::size_t named = std::min(missing.size(), kMostNamed);
    throw Error(
        ErrorCode::kMismatch,
        fmt::format(
            "{} micro batches of epoch {} are missing: {}{}; give the dumps of all ranks, "
            "from the beginning of a global batch",
            missing.size(), epoch,
            fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(named), ", "),
            named < missing.size() ? ", …" : ""));
  }
}

struct CertifyFlags {
  std::vector<std::string> files;
  std::optional<std::int64_t> global_batch;
};

int run_certify(const CertifyFlags& flags) {
  DeliveredJob job;
  for (const std::string& file : expand_patterns(flags.files)) {
    job.read(file);
  }
  std::optional<std::int64_t> before;
  for (const auto& [epoch, delivered] : job.epochs()) {
    if (before && epoch != *before + 1) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("there is nothing of epoch {}; give all dumps", *before + 1));
    }
    certify_epoch(job, epoch, flags.global_batch.value_or(job.logical_shards()));
    before = epoch;
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
      ->check(at_least(1));
  command->callback([flags, &run] { run = [flags] { return run_certify(*flags); }; });
}

}  // namespace energon::cli
