// energon dump: what the loader delivers, one JSON object a line and batch.
//
// This runs the loader of a training job in order to look at it. Two dumps with the same flags are
// equal. A dump that was saved and restored is also equal, from the line where it was saved.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "cli/commands/command.h"
#include "cli/job/batch_limit.h"
#include "cli/job/interrupt.h"
#include "cli/job/loader_flags.h"
#include "cli/job/loader_from_flags.h"
#include "cli/job/no_samples.h"
#include "cli/job/position_flags.h"
#include "cli/job/position_saver.h"
#include "cli/job/writable_target.h"
#include "cli/show/batch_lines.h"
#include "cli/show/output.h"
#include "cli/show/statistics_table.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/loader/savable_data_loader.h"
#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
namespace {

constexpr std::chrono::seconds kSaveGrace{30};

// A signal also ends a wait for a worker that makes no progress.
LoaderOptions interruptible(LoaderOptions options) {
  options.wait_check = check_interrupt;
  return options;
}

struct DumpFlags {
  LoaderFlags loader;
  std::optional<std::int64_t> limit;
  PositionFlags position;
  bool with_certificate = false;
};

// One run of the loader, from its start or a saved position.
class Dump {
 public:
  explicit Dump(const DumpFlags& flags)
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
  // The lines and counts go on from where the loader stands.
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
        throw reason;  // or it would go on for ever
      }
      print_warning(reason.what());
      is_warned_ = true;
    }
    delivered_in_epoch_ = 0;
  }

  const DumpFlags& flags_;
  const LoaderOptions options_;
  const std::optional<std::int64_t> epoch_limit_;
  SavableDataLoader loader_;
  PositionSaver saver_;
  BatchLines lines_;

  std::int64_t delivered_in_epoch_ = 0;
  std::int64_t epochs_ended_ = 0;     // since the very first one
  std::int64_t epochs_at_start_ = 0;  // epochs_ended_ when this run began or was rewound
  bool begins_within_epoch_ = false;  // at a saved state, or after a rewind
  bool is_warned_ = false;            // of an epoch without samples
};

int run_dump(const DumpFlags& flags) {
  const PositionFlags& position = flags.position;
  check_position_flags(position);
  if (flags.limit && position.save_after && *position.save_after > *flags.limit) {
    throw UsageError{fmt::format("--save-after {} is never reached: --limit ends the dump after {}",
                                 *position.save_after, *flags.limit)};
  }
  if (flags.limit && position.rewind_after && *position.rewind_after > *flags.limit) {
    throw UsageError{
        fmt::format("--rewind-after {} is never reached: --limit ends the dump after {}",
                    *position.rewind_after, *flags.limit)};
  }
  if (!position.save_to.empty()) {
    check_output(position.save_to);
    check_writable(position.save_to, "--save-to");
  }
  if (!position.save_to.empty() || !position.auto_save.empty()) {
    grant_interrupt_grace(kSaveGrace);  // without workers, a batch that is being made is finished
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
  add_limit(*command, flags->limit, 0, "Stop after so many batches of this run");
  add_position_flags(*command, flags->position);
  command->add_flag(
      "--certificate", flags->with_certificate,
      "Add the logical shard and the certificate of all that it delivered so far; with "
      "--logical-shards also which micro batch of the job it is, and its own "
      "certificate (for energon certify)");
  command->callback([flags, &run] { run = [flags] { return run_dump(*flags); }; });
}

}  // namespace energon::cli
