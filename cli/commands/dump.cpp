// energon dump: what the loader delivers, one JSON object a line and batch.
//
// This is the loader of a training job, run to be looked at: two dumps with the same flags are
// equal, and so is one that was saved and restored, from the line where it was saved.

#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/interrupt.h"
#include "cli/job/loader_flags.h"
#include "cli/job/loader_from_flags.h"
#include "cli/job/no_samples.h"
#include "cli/job/writable_target.h"
#include "cli/show/output.h"
#include "cli/show/statistics_table.h"
#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/turns.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/protocols/auto_saver.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/output_target.h"

namespace energon::cli {
namespace {

constexpr std::chrono::seconds kSaveGrace{30};

struct DumpFlags {
  LoaderFlags loader;
  std::optional<std::int64_t> limit;
  std::optional<std::int64_t> save_after;
  std::string save_to;
  std::string restore_from;
  std::string auto_save;
  std::optional<std::int64_t> every;
  std::string load_from;
  std::optional<std::int64_t> keep;
  std::optional<std::int64_t> at_step;
  bool start_over = false;
  bool with_certificate = false;
};

// The logical shard that made a batch: the outermost stage of every restore key says it.
int logical_shard_of(const Sample& batch) {
  return static_cast<int>(
      split_key(batch.restore_key, Stage::kLogicalShard, 2, 1).integers.front());
}

void append_line(std::string& line, const Sample& batch, const WorkerConfig& config,
                 std::int64_t index) {
  const int logical_shard = logical_shard_of(batch);
  const int worker = config.worker_of(place_of(logical_shard, config).stream);
  line.clear();
  fmt::format_to(std::back_inserter(line), R"({{"rank":{},"worker":{},"index":{},"keys":[)",
                 config.rank, worker, index);
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    line += i == 0 ? "" : ",";
    line += quoted_json(batch.keys[i]);
  }
  fmt::format_to(std::back_inserter(line), R"(],"restore_key":{},"digest":"{}")",
                 quoted_json(batch.restore_key.text()), to_hex(digest(batch)));
}

// One run of the loader, from its start or a saved position.
class Dump {
 public:
  explicit Dump(const DumpFlags& flags)
      : flags_(flags),
        options_(loader_options(flags.loader)),
        epoch_limit_(epoch_limit(flags.loader)),
        loader_(make_pipeline(flags.loader), options_) {
    if (!flags_.restore_from.empty()) {
      const SavedState saved = read_saved_state(flags_.restore_from);
      loader_.restore_state_rank(state_of_rank(saved, flags.loader.rank));
      is_restored_ = true;
    }
    if (!flags_.auto_save.empty()) {
      saver_.emplace(loader_, AutoSaveOptions{.folder = flags_.auto_save,
                                              .every_batches = *flags_.every,
                                              .load_from = flags_.load_from,
                                              .keep = flags_.keep,
                                              .at_step = flags_.at_step,
                                              .start_over = flags_.start_over});
      for (const std::string& checkpoint : saver_->ignored()) {
        print_warning("passed over, this checkpoint does not count: " + checkpoint);
      }
      is_restored_ = saver_->restored_from().has_value();
    }
    if (is_restored_) {
      begin_at(loader_.save_state_rank());
    }
  }

  int run() {
    try {
      deliver();
    } catch (const ClosedOutput&) {
      warn_of_unread_output();
      throw;
    } catch (const Error&) {
      save_after_error();
      throw;
    }
    if (const auto failures = describe_failures(loader_.stats())) {
      print_warning(*failures);
    }
    save_at_end();
    return interrupt_signal() != 0 ? kExitSignal + interrupt_signal() : kExitOk;
  }

 private:
  void deliver() {
    save_if_due();
    std::string line;
    while (!is_over()) {
      const std::optional<Sample> batch = loader_.next();
      if (!batch) {
        end_epoch();
        continue;
      }
      end_epochs_before(*batch);
      append_line(line, *batch, options_.worker_config, index_);
      if (flags_.with_certificate) {
        append_certificate(line, *batch);
      }
      line += "}\n";
      output().write(line);
      ++index_;
      ++delivered_;
      ++delivered_in_epoch_;
      save_if_due();
      count_for_auto_save();
      output().flush_if_idle();
    }
  }

  void begin_at(const SavableDataLoaderState& state) {
    for (const SavableDatasetCheckpoint& shard : state.streams) {
      certificates_[shard.logical_shard] = shard.certificate;
      turns_[shard.logical_shard] = shard.turn;
    }
    epoch_ = state.epoch + (state.epoch_finished ? 1 : 0);
    index_ = state.batch_index;
    epochs_ended_ = epoch_;
    epochs_at_start_ = epochs_ended_;
  }

  void append_certificate(std::string& line, const Sample& batch) {
    const BatchPlace place = batch.place.value();
    Certificate& certificate = certificates_[place.logical_shard];
    extend(certificate, batch);
    fmt::format_to(std::back_inserter(line), R"(,"logical_shard":{},"certificate":"{}")",
                   place.logical_shard, to_hex(certificate.digest));
    if (const std::optional<int> shards = options_.worker_config.logical_shards) {
      turns_[place.logical_shard] = {place.epoch, place.turn + 1};
      fmt::format_to(std::back_inserter(line),
                     R"(,"logical_shards":{},"epoch":{},"micro_batch":{},"batch_certificate":"{}")",
                     *shards, place.epoch, place.micro_batch(*shards),
                     to_hex(certificate_of_batch(batch).digest));
    }
  }

  // Epochs that ended without a word (epoch policy loop), before the batch that was just delivered.
  void end_epochs_before(const Sample& batch) {
    if (flags_.with_certificate && options_.worker_config.logical_shards) {
      for (const std::int64_t epoch = batch.place.value().epoch; epoch_ < epoch;) {
        write_end_of_epoch();
      }
    }
  }

  // That nothing more of the epoch comes from the logical shards of this rank, and how many micro
  // batches each of them had. Those that had ended it before the start of this run said so then.
  void write_end_of_epoch() {
    const WorkerConfig& config = options_.worker_config;
    std::vector<int> shards;
    std::vector<std::int64_t> micro_batches;
    for (int stream = 0; stream < config.stream_count(); ++stream) {
      const int shard = config.logical_shard(stream);
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
                   config.rank, epoch_, fmt::join(shards, ","), fmt::join(micro_batches, ","),
                   *config.logical_shards);
    ++epoch_;
  }

  bool is_over() const {
    return interrupt_signal() != 0 || (flags_.limit && delivered_ >= *flags_.limit) ||
           (epoch_limit_ && epochs_ended_ >= *epoch_limit_);
  }

  void end_epoch() {
    ++epochs_ended_;
    if (flags_.with_certificate && options_.worker_config.logical_shards) {
      write_end_of_epoch();
    }
    // The rest of an epoch that a state was saved in may be empty.
    const bool may_be_empty = epochs_ended_ == epochs_at_start_ + 1 && is_restored_;
    if (delivered_in_epoch_ == 0 && !may_be_empty && !is_warned_) {
      const Error reason = no_samples(flags_.loader);
      if (!epoch_limit_) {
        throw reason;  // or it would go on for ever
      }
      print_warning(reason.what());
      is_warned_ = true;
    }
    delivered_in_epoch_ = 0;
  }

  void save_if_due() {
    if (flags_.save_after == delivered_ && !is_saved_) {
      save();
    }
  }

  void count_for_auto_save() {
    if (saver_) {
      if ((saver_->step() + 1) % *flags_.every == 0) {
        output().flush();
      }
      saver_->count_batch();
      warn_of_uncounted();
    }
  }

  // Once of each: only a save of this step can have found it.
  void warn_of_uncounted() const {
    const auto& checkpoint = saver_->last_uncounted();
    if (checkpoint && checkpoint->step == saver_->step()) {
      print_warning(
          fmt::format("the checkpoint of step {} does not count, no run can go on from it: {}: {}",
                      checkpoint->step, checkpoint->path, checkpoint->reason));
    }
  }

  void save() {
    output().flush();  // the state says that these batches were delivered
    write_loader_state(flags_.save_to, loader_.save_state_rank());
    is_saved_ = true;
  }

  void save_at_end() {
    const bool is_interrupted = interrupt_signal() != 0;
    if (!flags_.save_to.empty() && !is_saved_) {
      save();
      if (is_interrupted || flags_.save_after) {
        print_warning(fmt::format(
            "the {} after {} batches{}; {} was written {}",
            is_interrupted ? "dump was interrupted" : "stream ended", delivered_,
            flags_.save_after ? fmt::format(", before --save-after {}", *flags_.save_after)
                              : std::string(),
            flags_.save_to, is_interrupted ? "there" : "at its end"));
      }
    }
    if (is_interrupted) {
      save_checkpoint();  // last: its folder may fail where the file does not
    }
  }

  // The error that ended the dump is what is reported; this one only says where to go on.
  void save_after_error() {
    if (flags_.save_to.empty() && !saver_) {
      return;
    }
    try {
      output().flush();
      if (output().is_broken()) {
        print_warning("the state was not written, because the output was not");
        return;
      }
      if (!flags_.save_to.empty() && !is_saved_) {
        save();
        print_warning(fmt::format("the dump failed after {} batches; {} was written there",
                                  delivered_, flags_.save_to));
      }
      save_checkpoint();
    } catch (const ClosedOutput&) {
      warn_of_unread_output();
    } catch (const Error& error) {
      print_warning(fmt::format("the state was not written: {}", error.what()));
    }
  }

  void warn_of_unread_output() const {
    if (!flags_.save_to.empty() && !is_saved_) {
      print_warning("the state was not written, because the output was not read to its end");
    }
  }

  // A checkpoint that is not due, where it is complete without other ranks.
  void save_checkpoint() {
    if (saver_ && flags_.loader.world_size == 1) {
      output().flush();
      saver_->save_now();
    }
  }

  const DumpFlags& flags_;
  const LoaderOptions options_;
  const std::optional<std::int64_t> epoch_limit_;
  SavableDataLoader loader_;
  std::optional<AutoSaver> saver_;

  std::map<int, Certificate> certificates_;  // by logical shard
  std::map<int, Turn> turns_;                // by logical shard, of the batch that follows the last
  std::int64_t epoch_ = 0;                   // whose end is written next

  std::int64_t index_ = 0;      // of the next batch in the rank's stream
  std::int64_t delivered_ = 0;  // batches of this run
  std::int64_t delivered_in_epoch_ = 0;
  std::int64_t epochs_ended_ = 0;     // since the very first one
  std::int64_t epochs_at_start_ = 0;  // of this run
  bool is_restored_ = false;
  bool is_saved_ = false;
  bool is_warned_ = false;  // of an epoch without samples
};

void check_auto_save(const DumpFlags& flags) {
  if (flags.auto_save.empty() != !flags.every) {
    throw UsageError{"--auto-save and --every belong together: give both or neither"};
  }
  if (flags.auto_save.empty() &&
      (!flags.load_from.empty() || flags.keep || flags.at_step || flags.start_over)) {
    throw UsageError{
        "--load-from, --keep, --at-step and --start-over are for --auto-save; --restore-from is "
        "without it"};
  }
  if (flags.at_step && flags.start_over) {
    throw UsageError{"--at-step and --start-over both say where to begin: give one"};
  }
  if (!flags.auto_save.empty() && !flags.restore_from.empty()) {
    throw UsageError{
        "--auto-save begins at the newest checkpoint of its folder: give --load-from, which it "
        "takes where there is none, instead of --restore-from"};
  }
}

int run_dump(const DumpFlags& flags) {
  check_auto_save(flags);
  if (flags.save_after && flags.save_to.empty()) {
    throw UsageError{"--save-after needs --save-to, the file that the state is written to"};
  }
  if (flags.limit && flags.save_after && *flags.save_after > *flags.limit) {
    throw UsageError{fmt::format("--save-after {} is never reached: --limit ends the dump after {}",
                                 *flags.save_after, *flags.limit)};
  }
  if (!flags.save_to.empty()) {
    check_output(flags.save_to);
    check_writable(flags.save_to, "--save-to");
  }
  if (!flags.save_to.empty() || !flags.auto_save.empty()) {
    grant_interrupt_grace(kSaveGrace);  // the batch that is being made may take longer than usual
  }
  return Dump(flags).run();
}

}  // namespace

void add_dump(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand("dump",
                                               "Run the loader and print one JSON object a batch: "
                                               "rank, worker, index, keys, restore key, digest");
  const auto flags = std::make_shared<DumpFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kSeveral);
  command->add_option("--limit", flags->limit, "Stop after so many batches of this run")
      ->check(at_least(0));
  command
      ->add_option(
          "--save-after", flags->save_after,
          "Write the loader's state once so many batches of this run were delivered, and go on")
      ->check(at_least(0));
  command->add_option("--save-to", flags->save_to,
                      "File for the state: of --save-after, and without it (or before it is "
                      "reached) of what was delivered when the dump ends: at the end, by SIGINT or "
                      "SIGTERM, or with an error");
  command->add_option("--restore-from", flags->restore_from,
                      "Start at a saved state of this rank or of its job; give the flags that it "
                      "was saved (or rescaled) for");
  command->add_option("--auto-save", flags->auto_save,
                      "Folder of checkpoints, shared by all ranks: begin at the newest complete "
                      "one, and write one --every so many batches");
  command->add_option("--every", flags->every, "Batches of this rank between two checkpoints")
      ->check(at_least(1));
  command->add_option("--load-from", flags->load_from,
                      "Where to begin while that folder has none: another such folder, or a saved "
                      "state");
  command
      ->add_option("--at-step", flags->at_step,
                   "Begin at the checkpoint of this step, on all ranks alike: later ones are set "
                   "aside; 0: as --start-over")
      ->check(at_least(0));
  command->add_flag("--start-over", flags->start_over,
                    "Begin anew though that folder has checkpoints: they are set aside");
  command->add_option("--keep", flags->keep, "Complete checkpoints that stay; default: all")
      ->check(at_least(1));
  command->add_flag(
      "--certificate", flags->with_certificate,
      "Add the logical shard and the certificate of all that it delivered so far; with "
      "--logical-shards also which micro batch of the job it is, and its own "
      "certificate (for energon certify)");
  command->callback([flags, &run] { run = [flags] { return run_dump(*flags); }; });
}

}  // namespace energon::cli
