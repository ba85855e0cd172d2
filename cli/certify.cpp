// energon certify: what a job delivered, global batch by global batch, from the dumps of its ranks.
//
// A line of `energon dump --certificate` says which micro batch of the job it is, whatever layout
// it was made on. So the dumps of all ranks, also of several layouts one after the other, make up
// the stream of the job, and two jobs that read the same data give the same output.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/order_log.h"
#include "cli/output.h"
#include "energon/loader/certificate.h"
#include "io/error.h"
#include "io/file_source.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostNamed = 20;  // micro batches or logical shards in an error
constexpr std::int64_t kLargestNumber = std::int64_t{1} << 53;
constexpr std::int64_t kMostShards = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kLargestGlobalBatch = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr int kDeepest = 16;  // lists and objects within each other; a dump has two

struct Epoch {
  std::map<std::int64_t, Certificate> micro_batches;  // by their number in the epoch
  std::map<std::int64_t, std::int64_t> ended;  // micro batches of each logical shard that said so
};

// The lines of a file, one after the other.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(path) {}

  /// The next line, without its end; false after the last one. Throws as FileSource;
  /// kInvalidArgument for a line that is too long.
  bool read(std::string& line);
  /// Whether the line that was read last has no end.
  bool is_cut() const { return is_cut_; }

 private:
  FileSource file_;
  std::uint64_t offset_ = 0;  // of what is not in chunk_ yet
  std::string chunk_;
  std::size_t begin_ = 0;  // of the next line, in chunk_
  bool is_cut_ = false;
};

// What the dumps say of a job.
class DeliveredJob {
 public:
  void read(const std::string& path);

  std::int64_t logical_shards() const { return logical_shards_.value_or(1); }
  const std::map<std::int64_t, Epoch>& epochs() const { return epochs_; }

 private:
  void add(const Json& line);
  void add_end_of_epoch(const Json& line);

  std::optional<std::int64_t> logical_shards_;
  std::map<std::int64_t, Epoch> epochs_;
};

bool Lines::read(std::string& line) {
  line.clear();
  while (true) {
    if (begin_ == chunk_.size()) {
      if (offset_ == file_.size()) {
        is_cut_ = !line.empty();
        return is_cut_;
      }
      chunk_.resize(std::min<std::uint64_t>(kChunkBytes, file_.size() - offset_));
      file_.read_at(offset_, std::as_writable_bytes(std::span(chunk_)));
      offset_ += chunk_.size();
      begin_ = 0;
    }
    const std::size_t found = chunk_.find('\n', begin_);
    const std::size_t end = std::min(found, chunk_.size());
    line.append(chunk_, begin_, end - begin_);
    if (line.size() > kLongestLine) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a line has more than {} bytes: this is no dump", kLongestLine),
                  {.path = file_.path()});
    }
    begin_ = std::min(end + 1, chunk_.size());
    if (found != std::string::npos) {
      return true;
    }
  }
}

// Discarded if it is not JSON.
Json parse_line(const std::string& text) {
  const auto check_depth = [](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDeepest) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("it is nested more than {} deep", kDeepest));
    }
    return true;
  };
  return Json::parse(text, check_depth, false);
}

std::int64_t to_number(const Json& value, const char* name) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kLargestNumber) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a whole number from 0 to {}, got {}", name,
                            kLargestNumber, value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

std::int64_t number_in(const Json& line, const char* name) {
  return to_number(line.at(name), name);
}

std::vector<std::int64_t> numbers_in(const Json& line, const char* name) {
  const Json& list = line.at(name);
  if (!list.is_array()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}' must be a list of numbers, got {}", name, list.type_name()));
  }
  std::vector<std::int64_t> numbers;
  for (const Json& value : list) {
    numbers.push_back(to_number(value, name));
  }
  return numbers;
}

std::int64_t samples_in(const Json& line) {
  const Json& keys = line.at("keys");
  const auto is_string = [](const Json& key) { return key.is_string(); };
  if (!keys.is_array() || !std::all_of(keys.begin(), keys.end(), is_string)) {
    throw Error(ErrorCode::kInvalidArgument, "'keys' must be a list of strings");
  }
  return std::ssize(keys);
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
  if (shards == 0 || shards > kMostShards) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no job of {} logical shards", shards));
  }
  if (logical_shards_.value_or(shards) != shards) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("it is of a job of {} logical shards, the lines before of one of {}",
                            shards, logical_shards()));
  }
  logical_shards_ = shards;
  if (line.contains("end_of_epoch")) {
    add_end_of_epoch(line);
    return;
  }
  const std::int64_t epoch = number_in(line, "epoch");
  const std::int64_t number = number_in(line, "micro_batch");
  const Certificate certificate{.digest = digest_in(line, "batch_certificate"),
                                .samples = samples_in(line)};
  const auto [place, is_new] = epochs_[epoch].micro_batches.try_emplace(number, certificate);
  if (!is_new && place->second != certificate) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("micro batch {} of epoch {} was there before, with other samples: these "
                    "are not dumps of one job",
                    number, epoch));
  }
}

void DeliveredJob::add_end_of_epoch(const Json& line) {
  const std::int64_t epoch = number_in(line, "end_of_epoch");
  const std::vector<std::int64_t> shards = numbers_in(line, "of_logical_shards");
  const std::vector<std::int64_t> counts = numbers_in(line, "micro_batches");
  if (shards.size() != counts.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there are {} numbers in 'micro_batches' for {} logical shards",
                            counts.size(), shards.size()));
  }
  Epoch& delivered = epochs_[epoch];
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] >= logical_shards() || counts[i] > kLargestNumber / logical_shards()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("there is no logical shard {} of {} with {} micro batches", shards[i],
                              logical_shards(), counts[i]));
    }
    const std::int64_t before = delivered.ended.try_emplace(shards[i], counts[i]).first->second;
    if (before != counts[i]) {
      throw Error(ErrorCode::kMismatch,
                  fmt::format("epoch {} of logical shard {} ended after {} micro batches before, "
                              "now after {}: these are not dumps of one job",
                              epoch, shards[i], before, counts[i]));
    }
  }
}

void DeliveredJob::read(const std::string& path) {
  Lines lines(path);
  std::string text;
  for (int number = 1; lines.read(text); ++number) {
    const auto wrong = [&](ErrorCode code, std::string_view problem) {
      return Error(code, fmt::format("line {}: {}", number, printable(problem)), {.path = path});
    };
    try {
      const Json line = parse_line(text);
      if (line.is_discarded() && lines.is_cut()) {  // killed, or still running
        print_warning(fmt::format("{}: the last line is not complete", printable(path)));
        return;
      }
      add(line);
    } catch (const Error& error) {
      throw wrong(error.code(), error.message());
    } catch (const Json::exception&) {
      throw wrong(ErrorCode::kInvalidArgument,
                  "this is no line of `energon dump --certificate` with --logical-shards");
    }
  }
}

// One epoch of a job of `shards` logical shards.
class EpochCertifier {
 public:
  EpochCertifier(const Epoch& delivered, std::int64_t epoch, std::int64_t shards)
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

  const Epoch& delivered_;
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
