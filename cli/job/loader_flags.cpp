#include "cli/job/loader_flags.h"

#include <map>
#include <vector>

#include "cli/job/at_least.h"
#include "cli/job/seconds.h"
#include "cli/job/strict_tars.h"

namespace energon::cli {
namespace {

const std::map<std::string, Mode> kModes = {{"train", Mode::kTrain}, {"val", Mode::kVal}};
const std::map<std::string, CheckShards> kChecks = {{"first-read", CheckShards::kAtFirstRead},
                                                    {"opening", CheckShards::kAtOpening}};
const std::map<std::string, VerifyChecksums> kVerifications = {
    {"always", VerifyChecksums::kAlways},
    {"sampled", VerifyChecksums::kSampled},
    {"off", VerifyChecksums::kOff}};

const std::map<std::string, Division> kDivisions = {{"even", Division::kEven},
                                                    {"energon", Division::kEnergon}};

const std::map<std::string, BlendBy> kBlendBys = {{"draw", BlendBy::kDraw},
                                                  {"share", BlendBy::kShare}};

const std::map<std::string, EpochPolicy> kEpochPolicies = {{"strict", EpochPolicy::kStrict},
                                                           {"loop", EpochPolicy::kLoop}};

const std::map<std::string, OnError> kOnErrors = {{"fail", OnError::kFail},
                                                  {"skip", OnError::kSkip}};

// The option takes the names in `values`; the one of `target` is its default. CLI::Transformer
// would also accept their numbers.
template <class Value>
void add_choice(CLI::App& command, const std::string& name, Value& target,
                const std::map<std::string, Value>& values, const std::string& help) {
  std::vector<std::string> names;
  std::string standard;
  names.reserve(values.size());
  for (const auto& [text, value] : values) {
    names.push_back(text);
    if (value == target) {
      standard = text;
    }
  }
  command
      .add_option_function<std::string>(
          name, [&target, &values](const std::string& text) { target = values.at(text); }, help)
      ->default_str(standard)
      ->check(CLI::IsMember(names));
}

void add_layout_flags(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--num-workers", flags.num_workers,
                  "Worker processes of this rank; 0: everything in this process")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_option("--world-size", flags.world_size, "Data-parallel ranks")
      ->capture_default_str()
      ->check(at_least(1));
  command.add_option("--rank", flags.rank, "Rank to play")
      ->capture_default_str()
      ->check(at_least(0));
  command
      .add_option(
          "--logical-shards", flags.logical_shards,
          "Parts of the data with their own order, so that it does not depend on ranks and\n"
          "workers; a multiple of --world-size. Default: one for each worker of the job")
      ->check(at_least(1));
  add_choice(command, "--division", flags.division, kDivisions,
             "With --logical-shards: which of them get a sample more; energon for a job that began "
             "without");
  command.add_flag("--uneven", flags.allow_uneven,
                   "Allow --logical-shards that is no multiple of --world-size");
  add_choice(command, "--epoch-policy", flags.epoch_policy, kEpochPolicies,
             "At the end of an epoch: report it, or go on with the next one");
}

void add_order_flags(CLI::App& command, LoaderFlags& flags) {
  command.add_option("--batch-size", flags.batch_size, "Samples a batch")
      ->capture_default_str()
      ->check(at_least(1));
  command
      .add_option("--decode", flags.decode,
                  "Decode the parts by their names; images as this mode says, such as torchrgb "
                  "(docs/media.md)")
      ->expected(0, 1)
      ->default_str("torchrgb");
  command.add_option("--tokenizer", flags.tokenizer,
                     "Make tokens of texts with this model of SentencePiece (.model)");
  command
      .add_option("--tokenize", flags.tokenize,
                  "With --tokenizer: FIELD=TO makes field TO of the text FIELD, FIELD replaces it; "
                  "may be given\nseveral times. Default: txt=tokens")
      ->allow_extra_args(false);
  command.add_flag("--typed", flags.typed,
                   "Make samples of the type and the fields that each dataset.yaml describes");
  command
      .add_option("--shuffle-buffer-size", flags.shuffle_buffer_size,
                  "Samples to draw from; 0 and 1: no buffer")
      ->capture_default_str()
      ->check(at_least(0));
  command
      .add_option("--max-samples-per-sequence", flags.max_samples_per_sequence,
                  "Longest run of neighbours of one shard; default: no limit")
      ->check(at_least(1));
  command
      .add_option(
          "--shuffle-over-epochs", flags.shuffle_over_epochs,
          "Shuffle anew every so many epochs; none: keep the order, -1: draw with replacement")
      ->capture_default_str();
  command
      .add_option("--parallel-slices", flags.parallel_slices,
                  "Slices that are read in turn; default: 16, without shuffling 1")
      ->check(at_least(1));
  add_choice(
      command, "--blend-by", flags.blend_by, kBlendBys,
      "In a blend by weight: draw the dataset of the next sample, or take the one whose share\n"
      "so far is furthest below its weight");
  command.add_option("--seed-offset", flags.seed_offset, "Another order of the same data")
      ->capture_default_str();
}

void add_epoch_flags(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--virtual-epoch-length", flags.virtual_epoch_length,
                  "Batches of this rank after which an epoch ends; 0: the data's own end")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_flag("!--no-repeat", flags.repeat,
                   "Do not begin the data again within an epoch: with --virtual-epoch-length the "
                   "last epoch of a passage may be shorter");
  command
      .add_option(
          "--epochs", flags.epochs,
          "Stop after so many epochs, counted from the very first (bench: end a repetition after\n"
          "so many). In train mode without --virtual-epoch-length the pipeline then does not\n"
          "repeat the data: an epoch is one passage over it. Default: train endless, val 1")
      ->check(at_least(1));
}

void add_history_settings(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--checkpoint-history", flags.checkpoint_history,
                  "Delivered batches that the loader can go back; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 1'000'000));
  command
      .add_option("--checkpoint-history-mib", flags.checkpoint_history_mib,
                  "Memory for the states that --checkpoint-history keeps, in MiB")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20));
}

void add_worker_settings(CLI::App& command, LoaderFlags& flags) {
  command
      .add_option("--timeout", flags.timeout_seconds,
                  "Seconds without progress of a worker that are an error")
      ->capture_default_str()
      ->check(seconds());
  command
      .add_option("--starvation-limit", flags.starvation_seconds,
                  "Seconds that a worker without memory waits while the trainer waits for it")
      ->capture_default_str()
      ->check(seconds());
  command
      .add_option("--prefetch-factor", flags.prefetch_factor,
                  "Batches a worker may be ahead; default: by their bytes")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--prefetch-kib", flags.prefetch_kib,
                  "KiB of batches a worker may be ahead without --prefetch-factor")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 30));
  command
      .add_option("--checkpoint-every-batches", flags.checkpoint_every_batches,
                  "A worker stores its state every so many batches; default: by its size")
      ->check(at_least(1));
  command
      .add_option("--arena-limit-mib", flags.arena_limit_mib,
                  "Shared memory that the batches of a worker may take, in MiB")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--checkpoint-slot-mib", flags.checkpoint_slot_mib,
                  "Largest state that a worker can keep, in MiB; reserved, not used")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
}

void add_reading_settings(CLI::App& command, LoaderFlags& flags) {
  add_choice(
      command, "--check-shards", flags.check_shards, kChecks,
      "When each shard of a prepared dataset is compared with what was prepared [first-read]");
  add_choice(command, "--verify-checksums", flags.verify_checksums, kVerifications,
             "Samples that are compared with their stored checksums");
  command
      .add_option("--max-sample-bytes", flags.max_sample_bytes,
                  "A sample of a tar or a line of a JSONL file with more bytes is an error")
      ->check(at_least(1));
  add_strict_tars(command, flags.has_strict_tars);
  command.add_option("--debug-log", flags.debug_log,
                     "Log what is delivered: a file each for the parent and the workers, such as "
                     "'log-{worker_id}.jsonl'");
  command.add_option("--cache-dir", flags.cache_dir,
                     "Where indices and expanded shards go that cannot be kept beside the data");
}

void add_failure_flags(CLI::App& command, LoaderFlags& flags) {
  add_choice(command, "--on-error", flags.on_error, kOnErrors,
             "Samples and shards that cannot be used end the run, or are left out");
  command
      .add_option("--tolerance", flags.tolerance,
                  "With --on-error skip: so many failures in a row end the run; 0: never")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_option("--quarantine", flags.quarantine,
                     "File to which what is left out is appended, one JSON object a line");
  command
      .add_option("--exclude", flags.exclude_files,
                  "Leave out what this quarantine file names; may be given several times")
      ->allow_extra_args(false);  // or it would take PATH, too
}

}  // namespace

void add_loader_flags(CLI::App& command, LoaderFlags& flags, PathCount paths) {
  add_path(command, flags.path, paths);
  command
      .add_option("--split", flags.split, "Part of a prepared dataset, or split of a metadataset")
      ->capture_default_str();
  add_choice(command, "--mode", flags.mode, kModes, "Shuffled and endless, or in order and once");
  add_layout_flags(command, flags);
  add_order_flags(command, flags);
  add_epoch_flags(command, flags);
  add_worker_settings(command, flags);
  add_history_settings(command, flags);
  add_reading_settings(command, flags);
  add_failure_flags(command, flags);
}

}  // namespace energon::cli
