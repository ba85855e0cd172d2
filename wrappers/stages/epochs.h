// Decides where the epochs of a stream end.

#pragma once

#include <cstdint>
#include <memory>

#include "energon/stage/dataset.h"

namespace energon {

/// Cuts a stream into epochs of a given length, independent of the epochs of the inner stream.
class Epochize final : public Dataset {
 public:
  /// The effect of an inner stream that ends before the epoch.
  enum class AtEnd : std::uint8_t {
    kBeginAgain,  ///< the inner stream starts again from its beginning
    kEndEpoch     ///< the epoch ends too, and the next one starts the inner stream again
  };

  /// Takes ownership of `inner`. `length` is the number of samples (or batches) of `inner` in one
  /// epoch on this logical shard, not negative. The next epoch continues where this one ended.
  /// Throws Error (kInvalidArgument).
  Epochize(std::unique_ptr<Dataset> inner, std::int64_t length, AtEnd at_end = AtEnd::kBeginAgain);

  std::optional<Sample> next() override;
  void next_epoch() override { offset_ = 0; }
  std::optional<std::int64_t> size() const override;
  std::int64_t skip(std::int64_t count) override;
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool may_begin_again() const;

  const std::unique_ptr<Dataset> inner_;
  const std::int64_t length_;
  const AtEnd at_end_;

  // Saved state.
  std::int64_t offset_ = 0;  // emitted in this epoch; length_ when it is over
};

/// Yields the first samples of a stream; every epoch is the same. For validation: the inner stream
/// starts over in each epoch. Reads nothing beyond the limit.
class Limit final : public Dataset {
 public:
  /// Takes ownership of `inner`, which must be at its start. `length` is the number of samples (or
  /// batches) in one epoch on this logical shard, not negative. Throws Error (kInvalidArgument).
  Limit(std::unique_ptr<Dataset> inner, std::int64_t length);

  std::optional<Sample> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  std::int64_t skip(std::int64_t count) override;
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;

  const std::unique_ptr<Dataset> inner_;
  const std::int64_t length_;
  const State start_;  // of the inner stream

  // Saved state.
  std::int64_t offset_ = 0;  // emitted in this epoch
};

/// Repeats the epochs of a stream within one epoch: several times, a fraction of a time, or
/// forever.
class RepeatEpochs final : public Dataset {
 public:
  struct Options {
    /// Number of passes in one epoch, not negative; nullopt means forever. With a fraction, such as
    /// 2.7, the last pass stops after int(0.7 * pass_length) items, and the next epoch continues
    /// there, as in Energon.
    std::optional<double> repetitions = std::nullopt;
    std::int64_t pass_length = 0;  ///< items of a pass of which the fraction is taken
    bool restarts = true;          ///< false: all epochs after the first are empty
  };

  /// Takes ownership of `inner`. If a whole pass of an endless repetition yields nothing, the epoch
  /// ends. Throws Error (kInvalidArgument).
  RepeatEpochs(std::unique_ptr<Dataset> inner, const Options& options);

  std::optional<Sample> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  std::int64_t skip(std::int64_t count) override;
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool is_over() const;
  bool begin_pass();

  const std::unique_ptr<Dataset> inner_;
  const Options options_;
  std::int64_t whole_passes_ = 0;      // in an epoch; unused without repetitions
  std::int64_t last_pass_length_ = 0;  // of the partial pass after those; 0 if there is none

  // Saved state.
  std::int64_t repetition_ = 0;  // complete passes of this epoch
  std::int64_t taken_ = 0;       // items of this pass
};

}  // namespace energon
