// energon run: prints what the loader delivers, one JSON object per batch and line.
//
// Runs the loader of a training job for inspection. Two runs with the same flags print the same. A
// restored run prints the same from the line where it was saved.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/commands/position_saver.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/loader_flags.h"
#include "cli/loader_statistics.h"
#include "cli/output.h"
#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/order/worker_config.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "io/error.h"
#include "io/file.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

// --- Lines ---

enum class Certificates { kOff, kOn };

/// The lines of a run: one JSON object per delivered batch.
///
/// With certificates, in a job with logical shards, the end of each epoch has a line, too: the
/// logical shards of this rank deliver no more of the epoch.
class BatchLines {
 public:
  /// For the batches of the rank with this configuration, from its start.
  BatchLines(const WorkerConfig& config, Certificates certificates);

  /// Continues from the saved position of the rank instead.
  void begin_at(const SavableDataLoaderState& state);

  /// Prints the line of `batch`, and before it the ends of epochs that the loader did not report
  /// (epoch policy loop). Throws as Output::write().
  void print_batch(const Sample& batch);

  /// Prints the line of an end of epoch that the loader reported, if ends have lines.
  void print_end_of_epoch();

 private:
  bool has_ends_of_epochs() const;
  void append_batch(const Sample& batch);
  void append_certificate(const Sample& batch);
  void print_micro_batches();

  const WorkerConfig config_;
  const Certificates mode_;

  std::string line_;
  std::int64_t index_ = 0;                   // of the next batch in the rank's stream
  std::map<int, Certificate> certificates_;  // by logical shard
  std::map<int, Turn> turns_;                // by logical shard, of its next batch
  std::int64_t epoch_ = 0;                   // the epoch whose end is printed next
};

// The logical shard that made a batch: the outermost stage of every restore key names it.
int logical_shard_of(const Sample& batch) {
  return static_cast<int>(
      split_key(batch.restore_key, Stage::kLogicalShard, 2, 1).integers.front());
}

BatchLines::BatchLines(const WorkerConfig& config, Certificates certificates)
    : config_(config), mode_(certificates) {}

void BatchLines::begin_at(const SavableDataLoaderState& state) {
  for (const SavableDatasetCheckpoint& shard : state.checkpoints) {
    certificates_[shard.logical_shard] = shard.certificate;
    turns_[shard.logical_shard] = shard.turn;
  }
  epoch_ = state.epoch + (state.epoch_finished ? 1 : 0);
  index_ = state.batch_index;
}

bool BatchLines::has_ends_of_epochs() const {
  return mode_ == Certificates::kOn && config_.logical_shards.has_value();
}

void BatchLines::print_batch(const Sample& batch) {
  if (has_ends_of_epochs()) {
    for (const std::int64_t epoch = batch.place.value().epoch; epoch_ < epoch;) {
      print_micro_batches();
    }
  }
  line_.clear();
  append_batch(batch);
  if (mode_ == Certificates::kOn) {
    append_certificate(batch);
  }
  line_ += "}\n";
  output().write(line_);
  ++index_;
}

void BatchLines::append_batch(const Sample& batch) {
  const int logical_shard = logical_shard_of(batch);
  const int worker = config_.worker_of(place_of(logical_shard, config_).local_index);
  fmt::format_to(std::back_inserter(line_), R"({{"rank":{},"worker":{},"index":{},"keys":[)",
                 config_.rank, worker, index_);
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    line_ += i == 0 ? "" : ",";
    line_ += quoted_json(batch.keys[i]);
  }
  fmt::format_to(std::back_inserter(line_), R"(],"restore_key":{},"digest":"{}")",
                 quoted_json(batch.restore_key.text()), to_hex(digest(batch)));
}

void BatchLines::append_certificate(const Sample& batch) {
  const BatchPlace place = batch.place.value();
  Certificate& certificate = certificates_[place.logical_shard];
  extend(certificate, batch);
  fmt::format_to(std::back_inserter(line_), R"(,"logical_shard":{},"certificate":"{}")",
                 place.logical_shard, to_hex(certificate.digest));
  if (const std::optional<int> shards = config_.logical_shards) {
    turns_[place.logical_shard] = {place.epoch, place.turn + 1};
    fmt::format_to(std::back_inserter(line_),
                   R"(,"logical_shards":{},"epoch":{},"micro_batch":{},"batch_certificate":"{}")",
                   *shards, place.epoch, place.micro_batch(*shards),
                   to_hex(certificate_of_batch(batch).digest));
  }
}

void BatchLines::print_end_of_epoch() {
  if (has_ends_of_epochs()) {
    print_micro_batches();
  }
}

// The number of micro batches that each logical shard had in the epoch. Logical shards that ended
// it before the start of this run are left out: their line was printed then.
void BatchLines::print_micro_batches() {
  std::vector<int> shards;
  std::vector<std::int64_t> micro_batches;
  for (int stream = 0; stream < config_.logical_shards_per_rank(); ++stream) {
    const int shard = config_.logical_shard(stream);
    Turn& turn = turns_[shard];
    if (turn.epoch <= epoch_) {
      shards.push_back(shard);
      micro_batches.push_back(turn.epoch == epoch_ ? turn.count : 0);
      turn = {epoch_ + 1, 0};
    }
  }
  output().print(R"({{"rank":{},"end_of_epoch":{},"of_logical_shards":[{}],"micro_batches":[{}],)"
                 R"("logical_shards":{}}})"
                 "\n",
                 config_.rank, epoch_, fmt::join(shards, ","), fmt::join(micro_batches, ","),
                 *config_.logical_shards);
  ++epoch_;
}

// --- The command ---

constexpr std::chrono::seconds kSaveGrace{30};

// A signal also ends a wait for a worker that makes no progress.
LoaderOptions interruptible(LoaderOptions options) {
  options.wait_check = check_interrupt;
  return options;
}

struct RunFlags {
  LoaderFlags loader;
  std::optional<std::int64_t> limit;
  PositionFlags position;
  bool with_certificate = false;
};

// One run of the loader, from its start or a saved position.
class LoaderRun {
 public:
  explicit LoaderRun(const RunFlags& flags)
      : flags_(flags),
        options_(interruptible(loader_options(flags.loader))),
        epoch_limit_(epoch_limit(flags.loader)),
        loader_(make_pipeline(flags.loader), options_),
        saver_(loader_, options_.worker_config, flags.position),
        lines_(options_.worker_config,
               flags.with_certificate ? Certificates::kOn : Certificates::kOff) {
    if (saver_.is_restored()) {
      continue_from_position();
    }
  }

  int run() {
    try {
      deliver();
    } catch (const ClosedOutput&) {
      saver_.warn_of_unread_output();
      throw;
    } catch (const Error&) {
      saver_.save_after_error();
      throw;
    }
    if (const auto failures = describe_failures(loader_.stats())) {
      print_warning(*failures);
    }
    saver_.save_at_end();
    return interrupt_signal() != 0 ? kExitSignal + interrupt_signal() : kExitOk;
  }

 private:
  // Lines and counts continue from the position of the loader.
  void continue_from_position() {
    const SavableDataLoaderState state = loader_.save_state_rank();
    lines_.begin_at(state);
    epochs_ended_ = state.epoch + (state.epoch_finished ? 1 : 0);
    epochs_at_start_ = epochs_ended_;
    delivered_in_epoch_ = 0;
    begins_within_epoch_ = true;
  }

  void rewind_if_due() {
    if (saver_.delivered() == flags_.position.rewind_after) {
      loader_.rewind(*flags_.position.rewind_to);
      continue_from_position();
    }
  }

  void deliver() {
    saver_.save_if_due();
    rewind_if_due();
    while (!is_over()) {
      std::optional<Sample> batch;
      try {
        batch = loader_.next();
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kCancelled && interrupt_signal() != 0) {
          return;  // the position is that before the call
        }
        throw;
      }
      if (!batch) {
        end_epoch();
        continue;
      }
      lines_.print_batch(*batch);
      ++delivered_in_epoch_;
      saver_.count_batch();
      rewind_if_due();
      output().flush_if_idle();
    }
  }

  bool is_over() const {
    return interrupt_signal() != 0 || (flags_.limit && saver_.delivered() >= *flags_.limit) ||
           (epoch_limit_ && epochs_ended_ >= *epoch_limit_);
  }

  void end_epoch() {
    ++epochs_ended_;
    lines_.print_end_of_epoch();
    // The rest of an epoch after a saved state or a rewind may be empty.
    const bool may_be_empty = epochs_ended_ == epochs_at_start_ + 1 && begins_within_epoch_;
    if (delivered_in_epoch_ == 0 && !may_be_empty && !is_warned_) {
      const Error reason = no_samples(flags_.loader, loader_.stats());
      if (!epoch_limit_) {
        throw reason;  // otherwise the run would never end
      }
      print_warning(reason.what());
      is_warned_ = true;
    }
    delivered_in_epoch_ = 0;
  }

  const RunFlags& flags_;
  const LoaderOptions options_;
  const std::optional<std::int64_t> epoch_limit_;
  SavableDataLoader loader_;
  PositionSaver saver_;
  BatchLines lines_;

  std::int64_t delivered_in_epoch_ = 0;
  std::int64_t epochs_ended_ = 0;     // since the start of the job
  std::int64_t epochs_at_start_ = 0;  // epochs_ended_ when this run began or was rewound
  bool begins_within_epoch_ = false;  // at a saved state, or after a rewind
  bool is_warned_ = false;            // of an epoch without samples
};

int run_loader(const RunFlags& flags) {
  const PositionFlags& position = flags.position;
  check_position_flags(position);
  if (flags.limit && position.save_after && *position.save_after > *flags.limit) {
    throw UsageError{fmt::format("--save-after {} is never reached: --limit ends the run after {}",
                                 *position.save_after, *flags.limit)};
  }
  if (flags.limit && position.rewind_after && *position.rewind_after > *flags.limit) {
    throw UsageError{
        fmt::format("--rewind-after {} is never reached: --limit ends the run after {}",
                    *position.rewind_after, *flags.limit)};
  }
  if (!position.save_to.empty()) {
    check_writable(position.save_to, "--save-to");
  }
  if (!position.save_to.empty() || !position.auto_save.empty()) {
    grant_interrupt_grace(kSaveGrace);  // without workers, a batch that is being made is finished
  }
  return LoaderRun(flags).run();
}

}  // namespace

void add_run(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("run",
                         "Run the loader and print one JSON object per batch: rank, worker, index, "
                         "keys, restore key, digest");
  const auto flags = std::make_shared<RunFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kSeveral);
  add_limit(*command, flags->limit, 0, "Stop after N batches of this run");
  add_position_flags(*command, flags->position);
  command->add_flag("--certificate", flags->with_certificate,
                    "Add the logical shard and a certificate of everything it delivered so far; "
                    "with --logical-shards, also the index of the micro batch in the job and its "
                    "own certificate (for energon certify)");
  on_run(*command, flags, run, run_loader);
}

}  // namespace energon::cli
