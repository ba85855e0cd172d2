#include "wrappers/recipe/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/overloaded.h"

namespace energon {

ValOptions val_options_of(const AllOptions& options) {
  const TrainOptions& train = options.train;
  return {.task_encoder = train.task_encoder,
          .batch_size = train.batch_size,
          .remainder = train.remainder,
          .samples_per_call = train.samples_per_call,
          .sort_pool_size = train.sort_pool_size,
          .packing_buffer_size = train.packing_buffer_size,
          .limit = options.limit,
          .errors = train.errors,
          .watchdog = train.watchdog,
          .log_path = train.log_path};
}

// --- Members ---

namespace {

using Names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 2> kDivisions = {"even", "energon"};
constexpr std::array<std::string_view, 2> kBlendBys = {"draw", "share"};
constexpr std::array<std::string_view, 2> kRemainders = {"smaller-batch", "drop"};
constexpr std::array<std::string_view, 2> kEpochPolicies = {"strict", "loop"};
constexpr std::array<std::string_view, 2> kFailureActions = {"fail", "skip"};
constexpr std::array<std::string_view, 2> kCheckShards = {"opening", "first-read"};
constexpr std::array<std::string_view, 3> kVerifications = {"always", "sampled", "off"};

template <class Enum>
OptionMember choice(Enum& member, std::string_view type, Names names) {
  static_assert(std::is_same_v<std::underlying_type_t<Enum>, std::uint8_t>);
  return ChoiceMember{type, names, reinterpret_cast<std::uint8_t*>(&member)};
}

OptionMember as_member(Division& member) { return choice(member, "Division", kDivisions); }
OptionMember as_member(BlendBy& member) { return choice(member, "BlendBy", kBlendBys); }
OptionMember as_member(BatchOptions::Remainder& member) {
  return choice(member, "BatchOptions::Remainder", kRemainders);
}
OptionMember as_member(EpochPolicy& member) {
  return choice(member, "EpochPolicy", kEpochPolicies);
}
OptionMember as_member(FailureAction& member) {
  return choice(member, "FailureAction", kFailureActions);
}
OptionMember as_member(CheckShards& member) { return choice(member, "CheckShards", kCheckShards); }
OptionMember as_member(VerifyChecksums& member) {
  return choice(member, "VerifyChecksums", kVerifications);
}
template <class Member>
OptionMember as_member(Member& member) {
  return &member;
}

}  // namespace

// --- The table ---

namespace {

using Group = OptionGroup;
using Use = OptionUse;

constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::int64_t kMostMilliseconds = 1'000'000'000'000;

// The path of a member and the function that finds it.
#define MEMBER(member_path) \
  .path = #member_path, .member = [](AllOptions& options) { return as_member(options.member_path); }

constexpr OptionRow kRows[] = {
    // --- Data ---
    {.name = "split",
     MEMBER(data.split),
     .standard = "train",
     .unit = "",
     .group = Group::kData,
     .sentence = "Part of a prepared dataset, or split of a metadataset",
     .stage = "open",
     .affects_order = true,
     .keyword = "split_part"},
    {.name = "dataset_config",
     MEMBER(data.dataset_config),
     .standard = "none",
     .unit = "",
     .group = Group::kData,
     .sentence = "File in .nv-meta that describes the samples of the dataset, instead of "
                 "dataset.yaml; in a metadataset, set it there",
     .stage = "open",
     .affects_order = true,
     .flag = ""},
    {.name = "split_config",
     MEMBER(data.split_config),
     .standard = "none",
     .unit = "",
     .group = Group::kData,
     .sentence = "File in .nv-meta that lists the shards of each part of the dataset, instead of "
                 "split.yaml; in a metadataset, set it there",
     .stage = "open",
     .affects_order = true,
     .flag = ""},
    {.name = "exclude_files",
     MEMBER(data.open.exclude_files),
     .standard = "none",
     .unit = "",
     .group = Group::kData,
     .sentence =
         "Leave out the samples and shards that this quarantine file lists. All others keep their "
         "places, so a job may go on with another exclusion; may be repeated",
     .stage = "ReadSamples",
     .flag = "exclude"},
    {.name = "typed",
     MEMBER(data.typed),
     .standard = "false",
     .unit = "",
     .group = Group::kData,
     .sentence = "Make samples of the type and the fields that each dataset.yaml describes",
     .stage = "ReadSamples",
     .keyword = ""},
    {.name = "check_shards",
     MEMBER(data.check_shards),
     .standard = "first-read",
     .unit = "",
     .group = Group::kData,
     .sentence = "When to compare the shards of a prepared dataset with their shard records",
     .stage = "open",
     .keyword = ""},
    {.name = "verify_checksums",
     MEMBER(data.verify_checksums),
     .standard = "always",
     .unit = "",
     .group = Group::kData,
     .sentence = "Which samples to compare with their stored checksums",
     .stage = "ReadSamples"},
    {.name = "max_sample_bytes",
     MEMBER(data.max_sample_bytes),
     .standard = "64GiB",
     .unit = "bytes",
     .group = Group::kData,
     .sentence = "A tar sample or a JSONL line larger than this is an error",
     .stage = "ReadSamples",
     .range = {.least = 1},
     .keyword = ""},
    {.name = "cache_dir",
     MEMBER(data.open.cache_dir),
     .standard = "none",
     .unit = "",
     .group = Group::kData,
     .sentence = "Folder for indices and expanded shards that cannot be kept next to the data",
     .stage = "open"},
    {.name = "index_threads",
     MEMBER(data.open.index_threads),
     .standard = "none",
     .unit = "threads",
     .group = Group::kData,
     .sentence = "Threads that index, expand or check shards; unset means one per core, at most 16",
     .stage = "open",
     .range = {.least = 1, .most = kMostInt},
     .keyword = ""},
    {.name = "cache_folder",
     MEMBER(train.task_encoder.cache.parent_folder),
     .standard = "none",
     .unit = "",
     .group = Group::kData,
     .sentence = "Folder in which a worker caches files that cookers look up; unset means the "
                 "system's temporary folder",
     .stage = "cook",
     .flag = "",
     .keyword = ""},
    {.name = "cache_threads",
     MEMBER(train.task_encoder.cache.threads),
     .standard = "8",
     .unit = "threads",
     .group = Group::kData,
     .sentence = "Concurrent fetches of a worker's file cache",
     .stage = "cook",
     .range = {.least = 1, .most = 1024},
     .flag = "",
     .keyword = ""},
    {.name = "cache_max_bytes",
     MEMBER(train.task_encoder.cache.max_bytes),
     .standard = "1TiB",
     .unit = "bytes",
     .group = Group::kData,
     .sentence = "Disk space that a worker's file cache may take",
     .stage = "cook",
     .range = {.least = 1},
     .flag = "",
     .keyword = ""},
    {.name = "cache_max_files",
     MEMBER(train.task_encoder.cache.max_files),
     .standard = "10000000",
     .unit = "files",
     .group = Group::kData,
     .sentence = "Number of files that a worker's file cache may hold",
     .stage = "cook",
     .range = {.least = 1},
     .flag = "",
     .keyword = ""},

    // --- Ranks and workers ---
    {.name = "rank",
     MEMBER(loader.worker_config.rank),
     .standard = "0",
     .unit = "",
     .group = Group::kLayout,
     .sentence = "Data-parallel rank of this process, less than world_size",
     .stage = "loader",
     .affects_order = true,
     .range = {.least = 0, .most = kMostInt}},
    {.name = "world_size",
     MEMBER(loader.worker_config.world_size),
     .standard = "1",
     .unit = "ranks",
     .group = Group::kLayout,
     .sentence = "Number of data-parallel ranks",
     .stage = "loader",
     .affects_order = true,
     .range = {.least = 1, .most = kMostInt}},
    {.name = "num_workers",
     MEMBER(loader.worker_config.num_workers),
     .standard = "0",
     .unit = "processes",
     .group = Group::kLayout,
     .sentence = "Worker processes of this rank; 0 runs everything in this process",
     .stage = "loader",
     .affects_order = true,
     .range = {.least = 0, .most = kMostInt}},
    {.name = "logical_shards",
     MEMBER(loader.worker_config.logical_shards),
     .standard = "none",
     .unit = "logical shards",
     .group = Group::kLayout,
     .sentence = "Parts of the data that each have their own order, so that the order does not "
                 "depend on ranks and workers; a multiple of world_size. Unset means one for each "
                 "worker of the job",
     .stage = "loader",
     .affects_order = true,
     .range = {.least = 1, .most = kMostInt}},
    {.name = "division",
     MEMBER(loader.worker_config.division),
     .standard = "even",
     .unit = "",
     .group = Group::kLayout,
     .sentence = "How to distribute the remainder over logical_shards; use 'energon' to continue a "
                 "job that started without logical_shards",
     .stage = "loader",
     .affects_order = true,
     .keyword = ""},
    {.name = "allow_uneven",
     MEMBER(loader.worker_config.allow_uneven),
     .standard = "false",
     .unit = "",
     .group = Group::kLayout,
     .sentence = "Allow a number of logical_shards that is not a multiple of world_size",
     .stage = "loader",
     .flag = "uneven"},

    // --- Order ---
    {.name = "seed_offset",
     MEMBER(loader.worker_config.seed_offset),
     .standard = "0",
     .unit = "",
     .group = Group::kOrder,
     .sentence = "Each value gives a different order of the same data",
     .stage = "SliceOrder",
     .affects_order = true,
     .range = {.least = std::numeric_limits<std::int64_t>::min()}},
    {.name = "shuffle_buffer_size",
     MEMBER(train.shuffle_buffer_size),
     .standard = "0",
     .unit = "samples",
     .group = Group::kOrder,
     .sentence =
         "Size of the buffer from which samples are drawn at random; 0 and 1 mean no buffer",
     .stage = "ShuffleBuffer",
     .use = Use::kTrain,
     .affects_order = true},
    {.name = "max_samples_per_sequence",
     MEMBER(train.max_samples_per_sequence),
     .standard = "none",
     .unit = "samples",
     .group = Group::kOrder,
     .sentence = "Longest run of consecutive samples from one shard; unset means no limit",
     .stage = "SliceOrder",
     .use = Use::kTrain,
     .affects_order = true,
     .range = {.least = 1}},
    {.name = "shuffle_over_epochs",
     MEMBER(train.shuffle_over_epochs),
     .standard = "1",
     .unit = "epochs",
     .group = Group::kOrder,
     .sentence = "Reshuffle every N epochs ('none' = never, -1 = sample with replacement)",
     .stage = "SliceOrder",
     .use = Use::kTrain,
     .affects_order = true,
     .keyword = "shuffle_over_epochs_multiplier"},
    {.name = "parallel_slices",
     MEMBER(train.parallel_slices),
     .standard = "16",
     .unit = "slices",
     .group = Group::kOrder,
     .sentence = "Slices that are read in turn; 1 without shuffling",
     .stage = "SliceOrder",
     .use = Use::kTrain,
     .affects_order = true,
     .range = {.least = 1},
     .keyword = "parallel_shard_iters"},
    {.name = "blend_by",
     MEMBER(train.blend_by),
     .standard = "draw",
     .unit = "",
     .group = Group::kOrder,
     .sentence = "In a blend by weight, draw the dataset of the next sample, or take the one whose "
                 "share so far is furthest below its weight",
     .stage = "Blend",
     .use = Use::kTrain,
     .affects_order = true,
     .keyword = ""},

    // --- Batches ---
    {.name = "batch_size",
     MEMBER(train.batch_size),
     .standard = "none",
     .unit = "samples",
     .group = Group::kBatches,
     .sentence = "Samples, or packs, in a batch; without it, single samples are delivered",
     .stage = "Batch",
     .affects_order = true,
     .range = {.least = 1}},
    {.name = "remainder",
     MEMBER(train.remainder),
     .standard = "smaller-batch",
     .unit = "",
     .group = Group::kBatches,
     .sentence = "What to do with samples at the end of an epoch that do not fill a batch",
     .stage = "Batch",
     .affects_order = true,
     .flag = "",
     .keyword = "batch_drop_last"},
    {.name = "samples_per_call",
     MEMBER(train.samples_per_call),
     .standard = "64",
     .unit = "samples",
     .group = Group::kBatches,
     .sentence = "Number of samples in a call of encode_samples",
     .stage = "BatchedMap",
     .range = {.least = 1, .most = kMaxSamplesPerCall},
     .flag = ""},
    {.name = "sort_pool_size",
     MEMBER(train.sort_pool_size),
     .standard = "none",
     .unit = "samples",
     .group = Group::kBatches,
     .sentence = "Number of samples that are sorted by cost together; unset means no sorting",
     .stage = "SortPool",
     .affects_order = true,
     .range = {.least = 1},
     .flag = ""},
    {.name = "packing_buffer_size",
     MEMBER(train.packing_buffer_size),
     .standard = "none",
     .unit = "samples",
     .group = Group::kBatches,
     .sentence = "Number of samples from which packs are selected; unset means no packing",
     .stage = "Packing",
     .affects_order = true,
     .range = {.least = 1},
     .flag = ""},

    // --- Epochs ---
    {.name = "epoch_policy",
     MEMBER(loader.epoch_policy),
     .standard = "strict",
     .unit = "",
     .group = Group::kEpochs,
     .sentence = "At the end of an epoch, report the end, or continue with the next epoch",
     .stage = "loader",
     .keyword = ""},
    {.name = "virtual_epoch_length",
     MEMBER(train.virtual_epoch_length),
     .standard = "0",
     .unit = "batches",
     .group = Group::kEpochs,
     .sentence = "Batches of this rank after which an epoch ends; 0 means the end of the data",
     .stage = "Epochize",
     .use = Use::kTrain,
     .affects_order = true},
    {.name = "repeat",
     MEMBER(train.repeat),
     .standard = "true",
     .unit = "",
     .group = Group::kEpochs,
     .sentence = "Start the data again at its end, within the epoch",
     .stage = "Repeat",
     .use = Use::kTrain,
     .affects_order = true},
    {.name = "limit",
     MEMBER(limit),
     .standard = "none",
     .unit = "batches",
     .group = Group::kEpochs,
     .sentence = "Batches of this rank in one epoch of validation; unset and 0 mean all",
     .stage = "Limit",
     .use = Use::kVal,
     .affects_order = true,
     .flag = ""},

    // --- Failures ---
    {.name = "on_error",
     MEMBER(train.errors.standard.action),
     .standard = "fail",
     .unit = "",
     .group = Group::kFailures,
     .sentence = "Whether samples and shards that cannot be used end the run or are left out",
     .stage = "all"},
    {.name = "failure_tolerance",
     MEMBER(train.errors.standard.tolerance),
     .standard = "100",
     .unit = "failures",
     .group = Group::kFailures,
     .sentence = "With on_error skip, this many failures in a row end the run; 0 means no limit",
     .stage = "all",
     .flag = "tolerance"},
    {.name = "quarantine_file",
     MEMBER(loader.quarantine_file),
     .standard = "none",
     .unit = "",
     .group = Group::kFailures,
     .sentence = "File to which skipped samples and shards are appended, one JSON object per line",
     .stage = "loader",
     .flag = "quarantine"},

    // --- Workers ---
    {.name = "timeout",
     MEMBER(loader.timeout),
     .standard = "60s",
     .unit = "seconds",
     .group = Group::kWorkers,
     .sentence = "A worker that makes no progress for this long is an error; none means no limit",
     .stage = "loader",
     .range = {.least = 1, .most = kMostMilliseconds}},
    {.name = "starvation_limit",
     MEMBER(loader.starvation_limit),
     .standard = "5s",
     .unit = "seconds",
     .group = Group::kWorkers,
     .sentence = "How long a worker without memory waits while the trainer waits for it",
     .stage = "worker",
     .range = {.least = 1, .most = kMostMilliseconds},
     .keyword = ""},
    {.name = "prefetch_factor",
     MEMBER(loader.prefetch_factor),
     .standard = "none",
     .unit = "batches",
     .group = Group::kWorkers,
     .sentence = "Batches that a worker may be ahead; unset means as many as prefetch_bytes allows",
     .stage = "worker",
     .range = {.least = 1, .most = 1024}},
    {.name = "prefetch_bytes",
     MEMBER(loader.prefetch_bytes),
     .standard = "4MiB",
     .unit = "bytes",
     .group = Group::kWorkers,
     .sentence = "Bytes of batches that a worker may be ahead without prefetch_factor",
     .stage = "worker",
     .range = {.least = 1, .most = kMostBytes}},
    {.name = "arena_limit_bytes",
     MEMBER(loader.arena_limit_bytes),
     .standard = "2GiB",
     .unit = "bytes",
     .group = Group::kWorkers,
     .sentence = "Shared memory that the batches of a worker may take",
     .stage = "worker",
     .range = {.least = 1, .most = kMostBytes}},

    // --- Checkpoints ---
    {.name = "checkpoint_every_batches",
     MEMBER(loader.checkpoint_every_batches),
     .standard = "none",
     .unit = "batches",
     .group = Group::kCheckpoints,
     .sentence = "A worker stores its state every N batches; 0 means at the start of each epoch "
                 "only, unset means by the size of the state",
     .stage = "worker"},
    {.name = "n_checkpoints",
     MEMBER(loader.n_checkpoints),
     .standard = "none",
     .unit = "states",
     .group = Group::kCheckpoints,
     .sentence = "States that each worker keeps per logical shard, at least 2 and at least "
                 "prefetch_factor + 1",
     .stage = "worker",
     .range = {.least = 2, .most = kMostInt},
     .flag = ""},
    {.name = "checkpoint_slot_bytes",
     MEMBER(loader.checkpoint_slot_bytes),
     .standard = "64MiB",
     .unit = "bytes",
     .group = Group::kCheckpoints,
     .sentence = "Largest state that a worker can keep; only the part in use takes memory",
     .stage = "worker",
     .range = {.least = 1, .most = kMostBytes},
     .keyword = ""},
    {.name = "checkpoint_history",
     MEMBER(loader.checkpoint_history),
     .standard = "100",
     .unit = "batches",
     .group = Group::kCheckpoints,
     .sentence = "Delivered batches that the loader can go back",
     .stage = "loader",
     .range = {.least = 0, .most = 1'000'000}},
    {.name = "checkpoint_history_bytes",
     MEMBER(loader.checkpoint_history_bytes),
     .standard = "64MiB",
     .unit = "bytes",
     .group = Group::kCheckpoints,
     .sentence = "Memory for the states that checkpoint_history keeps",
     .stage = "loader",
     .range = {.least = 0, .most = kMostBytes}},

    // --- Logs ---
    {.name = "debug_log_path",
     MEMBER(loader.debug_log_path),
     .standard = "none",
     .unit = "",
     .group = Group::kLogs,
     .sentence = "Log the delivered batches, in one file for the parent and one for each worker, "
                 "such as 'log-{worker_id}.jsonl'",
     .stage = "loader",
     .flag = "debug-log"},
    {.name = "log_path",
     MEMBER(train.log_path),
     .standard = "none",
     .unit = "",
     .group = Group::kLogs,
     .sentence = "File in which to log each batch that a worker makes, with its restore key",
     .stage = "LogSample",
     .flag = "",
     .keyword = ""},
};

#undef MEMBER

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }

const OptionRow* find_option(std::string_view name) {
  const auto* const row = std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const OptionRow& each) { return each.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}

std::string_view heading(OptionGroup group) {
  switch (group) {
    case OptionGroup::kData:
      return "Data";
    case OptionGroup::kLayout:
      return "Ranks and workers";
    case OptionGroup::kOrder:
      return "Order";
    case OptionGroup::kBatches:
      return "Batches";
    case OptionGroup::kEpochs:
      return "Epochs";
    case OptionGroup::kFailures:
      return "Failures";
    case OptionGroup::kWorkers:
      return "Memory and timeouts of workers";
    case OptionGroup::kCheckpoints:
      return "Checkpoints";
    case OptionGroup::kLogs:
      return "Logs";
  }
  return "";
}

bool fits(const OptionRow& row, OptionUse use) {
  return row.use == OptionUse::kBoth || row.use == use;
}

bool is_of_loader(const OptionRow& row) { return row.path.starts_with("loader."); }

// --- Names ---

std::string spelled(const OptionRow& row, OptionCaller caller) {
  switch (caller) {
    case OptionCaller::kCommandLine: {
      const std::string_view name = row.flag.value_or(row.name);
      const bool turns_off = row.standard == "true";
      return name.empty() ? ""
                          : option_name(fmt::format("{}{}", turns_off ? "no_" : "", name), caller);
    }
    case OptionCaller::kPython: {
      const std::string_view name = row.keyword.value_or(row.name);
      return name.empty() ? "" : option_name(name, caller);
    }
  }
  return "";
}

std::string member_name(const OptionRow& row) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kStructs = {
      {{"data.", "DataOptions"}, {"train.", "TrainOptions"}, {"loader.", "LoaderOptions"}}};
  for (const auto& [prefix, name] : kStructs) {
    if (row.path.starts_with(prefix)) {
      return fmt::format("{}::{}", name, row.path.substr(prefix.size()));
    }
  }
  return fmt::format("ValOptions::{}", row.path);
}

std::string type_name(const OptionRow& row) {
  AllOptions options;
  return std::visit(
      Overloaded{
          [](bool*) -> std::string { return "bool"; }, [](int*) -> std::string { return "int"; },
          [](std::int64_t*) -> std::string { return "std::int64_t"; },
          [](std::uint64_t*) -> std::string { return "std::uint64_t"; },
          [](std::optional<int>*) -> std::string { return "std::optional<int>"; },
          [](std::optional<std::int64_t>*) -> std::string { return "std::optional<std::int64_t>"; },
          [](std::string*) -> std::string { return "std::string"; },
          [](std::optional<std::string>*) -> std::string { return "std::optional<std::string>"; },
          [](std::vector<std::string>*) -> std::string { return "std::vector<std::string>"; },
          [](std::chrono::milliseconds*) -> std::string { return "std::chrono::milliseconds"; },
          [](ShuffleOverEpochs*) -> std::string { return "ShuffleOverEpochs"; },
          [](const ChoiceMember& member) { return std::string(member.type); }},
      row.member(options));
}

namespace {

bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The characters next to a name in a path, a key or a member of a configuration.
bool joins_words(char c) { return is_in_word(c) || c == '/' || c == '-' || c == '.' || c == '"'; }

}  // namespace

std::string with_option_names(std::string_view message, OptionCaller caller) {
  std::string result;
  std::size_t i = 0;
  while (i < message.size()) {
    const auto end =
        static_cast<std::size_t>(std::find_if_not(message.begin() + static_cast<std::ptrdiff_t>(i),
                                                  message.end(), is_in_word) -
                                 message.begin());
    if (end == i) {
      result += message[i++];
      continue;
    }
    const std::string_view word = message.substr(i, end - i);
    const bool is_part = (i > 0 && joins_words(message[i - 1])) ||
                         (end + 1 < message.size() && joins_words(message[end]) &&
                          joins_words(message[end + 1]));  // not the full stop of a sentence
    // Names of one word ("rank", "timeout", "split") are also plain English.
    const OptionRow* const row =
        is_part || word.find('_') == std::string_view::npos ? nullptr : find_option(word);
    const std::string name = row == nullptr ? "" : spelled(*row, caller);
    result += name.empty() ? word : name;
    i = end;
  }
  return result;
}

// --- Values ---

namespace {

std::string range_text(const OptionRange& range, const std::string& least,
                       const std::string& most) {
  return range.most == std::numeric_limits<std::int64_t>::max() || range.most == kMostInt
             ? fmt::format("of at least {}", least)
             : fmt::format("from {} to {}", least, most);
}

std::string whole_number(const OptionRange& range) {
  return range.least == std::numeric_limits<std::int64_t>::min()
             ? "a whole number"
             : fmt::format("a whole number {}", range_text(range, std::to_string(range.least),
                                                           std::to_string(range.most)));
}

template <class Number>
bool set_number(Number& target, const OptionRange& range, std::string_view text) {
  const auto number = parse_number<Number>(text);
  const bool fits = number && *number >= range.least && *number <= range.most;
  if (fits) {
    target = *number;
  }
  return fits;
}

template <class Number>
bool set_number(std::optional<Number>& target, const OptionRange& range, std::string_view text) {
  if (text == "none") {
    target.reset();
    return true;
  }
  Number number{};
  const bool fits = set_number(number, range, text);
  if (fits) {
    target = number;
  }
  return fits;
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

template <class Number>
std::string or_none(const std::optional<Number>& number) {
  return number ? fmt::format("{}", *number) : "none";
}

}  // namespace

std::string expected_value(const OptionRow& row) {
  const OptionRange& range = row.range;
  AllOptions options;
  return std::visit(
      Overloaded{
          [](bool*) -> std::string { return "true or false"; },
          [&](int*) { return whole_number(range); },
          [&](std::int64_t*) { return whole_number(range); },
          [&](std::uint64_t*) {
            return fmt::format(
                "a size in bytes, such as 4096 or 512MiB, {}",
                range_text(range, bytes_text(static_cast<std::uint64_t>(range.least)),
                           bytes_text(static_cast<std::uint64_t>(range.most))));
          },
          [&](std::optional<int>*) { return fmt::format("{}, or none", whole_number(range)); },
          [&](std::optional<std::int64_t>*) {
            return fmt::format("{}, or none", whole_number(range));
          },
          [](std::string*) -> std::string { return "text"; },
          [](std::optional<std::string>*) -> std::string { return "text"; },
          [](std::vector<std::string>*) -> std::string { return "text"; },
          [&](std::chrono::milliseconds*) {
            return fmt::format(
                "seconds {}, with a unit as in 500ms or 2h, or none",
                range_text(range, duration_text(std::chrono::milliseconds(range.least)),
                           duration_text(std::chrono::milliseconds(range.most))));
          },
          [](ShuffleOverEpochs*) -> std::string {
            return "none, -1 or a number of epochs of at least 1";
          },
          [](const ChoiceMember& member) {
            return fmt::format("one of {}", fmt::join(member.names, ", "));
          }},
      row.member(options));
}

bool set_option(AllOptions& options, const OptionRow& row, std::string_view text) {
  const OptionRange& range = row.range;
  return std::visit(
      Overloaded{
          [&](bool* member) {
            const bool fits = text == "true" || text == "false";
            *member = fits ? text == "true" : *member;
            return fits;
          },
          [&](int* member) { return set_number(*member, range, text); },
          [&](std::int64_t* member) { return set_number(*member, range, text); },
          [&](std::uint64_t* member) {
            const auto bytes = parse_bytes(text);
            const bool fits = bytes && *bytes >= static_cast<std::uint64_t>(range.least) &&
                              *bytes <= static_cast<std::uint64_t>(range.most);
            *member = fits ? *bytes : *member;
            return fits;
          },
          [&](std::optional<int>* member) { return set_number(*member, range, text); },
          [&](std::optional<std::int64_t>* member) { return set_number(*member, range, text); },
          [&](std::string* member) {
            *member = text;
            return true;
          },
          [&](std::optional<std::string>* member) {
            *member = text;
            return true;
          },
          [&](std::vector<std::string>* member) {
            member->emplace_back(text);
            return true;
          },
          [&](std::chrono::milliseconds* member) {
            const auto time = parse_duration(text);
            const bool fits =
                time && (*time == std::chrono::milliseconds::max() ||
                         (time->count() >= range.least && time->count() <= range.most));
            *member = fits ? *time : *member;
            return fits;
          },
          [&](ShuffleOverEpochs* member) {
            const auto shuffle = parse_shuffle_over_epochs(text);
            *member = shuffle.value_or(*member);
            return shuffle.has_value();
          },
          [&](const ChoiceMember& member) {
            const auto name = std::find(member.names.begin(), member.names.end(), text);
            const bool is_known = name != member.names.end();
            if (is_known) {
              *member.value = static_cast<std::uint8_t>(name - member.names.begin());
            }
            return is_known;
          }},
      row.member(options));
}

std::string option_value(AllOptions& options, const OptionRow& row) {
  return std::visit(
      Overloaded{
          [](const bool* member) -> std::string { return *member ? "true" : "false"; },
          [](const int* member) { return std::to_string(*member); },
          [](const std::int64_t* member) { return std::to_string(*member); },
          [](const std::uint64_t* member) { return bytes_text(*member); },
          [](const std::optional<int>* member) { return or_none(*member); },
          [](const std::optional<std::int64_t>* member) { return or_none(*member); },
          [](const std::string* member) { return or_none(*member); },
          [](const std::optional<std::string>* member) { return or_none(*member); },
          [](const std::vector<std::string>* member) {
            return or_none(fmt::format("{}", fmt::join(*member, ",")));
          },
          [](const std::chrono::milliseconds* member) { return duration_text(*member); },
          [](const ShuffleOverEpochs* member) { return to_string(*member); },
          [](const ChoiceMember& member) { return std::string(member.names[*member.value]); }},
      row.member(options));
}

}  // namespace energon
