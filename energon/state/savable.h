// What every stage of a pipeline can do besides yielding items: be saved, be restored, and say how
// it is configured.

#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "energon/state/state.h"

namespace energon {

using Config = nlohmann::ordered_json;

/// Not thread-safe: one thread drives a pipeline.
class Savable {
 public:
  Savable() = default;
  virtual ~Savable() = default;
  Savable(const Savable&) = delete;
  Savable& operator=(const Savable&) = delete;

  /// The position after the items yielded so far. Has no side effects.
  virtual State save_state() const = 0;

  /// Continues from `state`: the next items are those that followed when it was saved. Throws Error
  /// (kMismatch) that lists all differences if the state belongs to another pipeline; then nothing
  /// has changed.
  void restore_state(const State& state);

  /// The settings that the order depends on, with those of the inner stages: equal configs mean
  /// equal streams. Compared on restore.
  virtual Config config() const = 0;

 protected:
  /// Appends what is wrong with the values of a state whose shape fits, inner stages included.
  virtual void check_state(const State& state, std::vector<std::string>& differences) const = 0;
  /// Takes over a state that was checked.
  virtual void apply_state(const State& state) = 0;

  // A stage may call these for its inner stages.
  static void check(const Savable& stage, const State& state,
                    std::vector<std::string>& differences) {
    stage.check_state(state, differences);
  }
  static void apply(Savable& stage, const State& state) { stage.apply_state(state); }
};

/// Appends "path: <a>, expected <b>" for every leaf in which two configs differ. What configs of
/// earlier versions, or of other files beside the data, lack ("draws" of a loader, "indexes" and
/// "checksums" of a dataset) is compared where both have it.
void compare_configs(const Config& config, const Config& expected, const std::string& path,
                     std::vector<std::string>& differences);

}  // namespace energon
