// The restartable protocol: four functions with which a user's worker object defines its state, how
// the states of all workers are combined, and how they are split again.
//
//   state_dict()                      the state of this worker
//   aggregate_state_dict(states)      the states of all workers, by global worker id, as one
//   deaggregate_state_dict(state)     this worker's part of it
//   load_state_dict(part)             continues from there
//
// The protocol is structural: an object with all four functions is Restartable, whatever its type.
// load_state_dict() and deaggregate_state_dict() may take a Strictness, but only both together. The
// terms are Cerebras' (RestartableDataLoader).

#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "protocols/cerebras/worker_checkpoint.h"

namespace energon {

/// How load_state_dict() and deaggregate_state_dict() treat a state saved under other settings.
enum class Strictness : std::uint8_t {
  kStrict,   ///< refuse it, with all differences in one Error
  kLenient,  ///< take the position and ignore the rest; unreadable data is still an Error
};

template <class T>
concept TakesStrictLoad = requires(T& object, const StateDict& state) {
  object.load_state_dict(state, Strictness::kStrict);
};

template <class T>
concept TakesStrictDeaggregate = requires(T& object, const StateDict& state) {
  object.deaggregate_state_dict(state, Strictness::kStrict);
};

template <class T>
concept HasFourFunctions = requires(T& object, const StateDict& state,
                                    std::span<const StateDict> all) {
  { object.state_dict() } -> std::convertible_to<StateDict>;
  { object.aggregate_state_dict(all) } -> std::convertible_to<StateDict>;
}
&&(TakesStrictLoad<T> ||
   requires(T & object, const StateDict& state) { object.load_state_dict(state); }) &&
    (TakesStrictDeaggregate<T> || requires(T & object, const StateDict& state) {
      { object.deaggregate_state_dict(state) } -> std::convertible_to<StateDict>;
    });

/// Has all four functions; load_state_dict() and deaggregate_state_dict() take Strictness both or
/// neither.
template <class T>
concept Restartable = HasFourFunctions<T> && TakesStrictLoad<T>
== TakesStrictDeaggregate<T>;

/// An object that runs in a worker. next() returns a batch, or nullopt at the end of an epoch; the
/// call after that begins the next epoch. An object that takes Strictness in only one function is
/// not a BatchWorker.
template <class T>
concept BatchWorker = std::move_constructible<T> && requires(T& object) {
  { object.next() } -> std::convertible_to<std::optional<Sample>>;
} &&(Restartable<T> || !HasFourFunctions<T>);

/// Makes the object of one worker; called in the worker after the fork, and also in the parent.
template <class Function>
concept WorkerInput = requires(const Function& function, const PipelineContext& context) {
  { function(context) } -> BatchWorker;
};

/// A type-erased BatchWorker. For one thread at a time.
class AnyWorker {
 public:
  AnyWorker() = default;
  virtual ~AnyWorker() = default;
  AnyWorker(const AnyWorker&) = delete;
  AnyWorker& operator=(const AnyWorker&) = delete;

  virtual std::optional<Sample> next() = 0;
  virtual bool restartable() const = 0;
  // If the object is not restartable, the next four throw Error (kUnsupported).
  virtual StateDict state_dict() = 0;
  virtual void load_state_dict(const StateDict& state, Strictness strictness) = 0;
  virtual StateDict aggregate_state_dict(std::span<const StateDict> states) = 0;
  virtual StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness) = 0;
  /// Messages for the user about the load, from objects that have warnings(); else empty.
  virtual std::vector<std::string> warnings() const = 0;
};

using AnyWorkerFactory = std::function<std::unique_ptr<AnyWorker>(const PipelineContext&)>;

/// Throws Error (kUnsupported) with the functions that a restartable object needs.
[[noreturn]] void throw_not_restartable();

template <BatchWorker Object>
class ErasedWorker final : public AnyWorker {
 public:
  explicit ErasedWorker(Object object) : object_(std::move(object)) {}

  std::optional<Sample> next() override { return object_.next(); }

  bool restartable() const override { return Restartable<Object>; }

  StateDict state_dict() override {
    if constexpr (Restartable<Object>) {
      return object_.state_dict();
    } else {
      throw_not_restartable();
    }
  }

  void load_state_dict(const StateDict& state, [[maybe_unused]] Strictness strictness) override {
    if constexpr (!Restartable<Object>) {
      throw_not_restartable();
    } else if constexpr (TakesStrictLoad<Object>) {
      object_.load_state_dict(state, strictness);
    } else {
      object_.load_state_dict(state);
    }
  }

  StateDict aggregate_state_dict(std::span<const StateDict> states) override {
    if constexpr (Restartable<Object>) {
      return object_.aggregate_state_dict(states);
    } else {
      throw_not_restartable();
    }
  }

  StateDict deaggregate_state_dict(const StateDict& state,
                                   [[maybe_unused]] Strictness strictness) override {
    if constexpr (!Restartable<Object>) {
      throw_not_restartable();
    } else if constexpr (TakesStrictDeaggregate<Object>) {
      return object_.deaggregate_state_dict(state, strictness);
    } else {
      return object_.deaggregate_state_dict(state);
    }
  }

  std::vector<std::string> warnings() const override {
    if constexpr (requires { std::vector<std::string>(object_.warnings()); }) {
      return object_.warnings();
    } else {
      return {};
    }
  }

 private:
  Object object_;
};

template <WorkerInput Function>
AnyWorkerFactory erase_type(Function function) {
  return [function = std::move(function)](const PipelineContext& context) {
    using Object = decltype(function(context));
    return std::unique_ptr<AnyWorker>(std::make_unique<ErasedWorker<Object>>(function(context)));
  };
}

// The settings in a saved state, compared with the current ones: what a Strictness needs.

/// Appends to `differences` a line with both values for every setting that is unknown, missing or
/// different. `saved` and `current` are objects; settings named in `ignored` may differ.
void compare_settings(const StateDict& saved, const StateDict& current,
                      const std::vector<std::string>& ignored,
                      std::vector<std::string>& differences);

/// Throws Error (kMismatch) with all differences, if there are any.
void refuse_differences(const std::vector<std::string>& differences);

/// An upper bound for the samples of a run, small enough to add counts without overflow.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;

/// The integer `name` in a state. Throws Error (kMismatch) if it is missing, not an integer,
/// negative or above kMostSamples.
std::int64_t count_in(const StateDict& state, const std::string& name);

}  // namespace energon
