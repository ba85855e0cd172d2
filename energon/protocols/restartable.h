// The restartable protocol: four functions by which a user's own worker object says what its state
// is, and how the states of all workers become one and are taken apart again.
//
//   state_dict()                      what this worker has to remember
//   aggregate_state_dict(states)      the states of all workers, by global worker id, as one
//   deaggregate_state_dict(state)     this worker's part of it
//   load_state_dict(part)             continues from there
//
// It is structural: an object with all four is Restartable, whatever its type. load and deaggregate
// may take a Strictness; then both do. The terms are Cerebras' (RestartableDataLoader).

#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energon/protocols/worker_progress.h"
#include "energon/sample/sample.h"
#include "energon/stage/pipeline.h"

namespace energon {

/// What load and deaggregate do with a state that was saved under other settings.
enum class Strictness : std::uint8_t {
  kStrict,   ///< refuse it, with all differences in one Error
  kLenient,  ///< take the position and leave the rest; what cannot be read is still an Error
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

/// All four functions, and Strictness in both or in neither of load and deaggregate.
template <class T>
concept Restartable = HasFourFunctions<T> && TakesStrictLoad<T>
== TakesStrictDeaggregate<T>;

/// What runs in a worker: next() gives a batch, or nothing at the end of an epoch, and the call
/// after that begins the next one. An object that takes Strictness in one function only is none.
template <class T>
concept BatchWorker = std::move_constructible<T> && requires(T& object) {
  { object.next() } -> std::convertible_to<std::optional<Sample>>;
} &&(Restartable<T> || !HasFourFunctions<T>);

/// Makes the object of one worker; called after the fork, and in the parent.
template <class Function>
concept WorkerInput = requires(const Function& function, const PipelineContext& context) {
  { function(context) } -> BatchWorker;
};

/// A BatchWorker whose type was forgotten. For one thread at a time.
class AnyWorker {
 public:
  AnyWorker() = default;
  virtual ~AnyWorker() = default;
  AnyWorker(const AnyWorker&) = delete;
  AnyWorker& operator=(const AnyWorker&) = delete;

  virtual std::optional<Sample> next() = 0;
  virtual bool restartable() const = 0;
  // Of an object that is not restartable, these throw Error (kUnsupported).
  virtual StateDict state_dict() = 0;
  virtual void load_state_dict(const StateDict& state, Strictness strictness) = 0;
  virtual StateDict aggregate_state_dict(std::span<const StateDict> states) = 0;
  virtual StateDict deaggregate_state_dict(const StateDict& state, Strictness strictness) = 0;
  /// What a person should know about the load, from objects that have warnings().
  virtual std::vector<std::string> warnings() const = 0;
};

using AnyWorkerFactory = std::function<std::unique_ptr<AnyWorker>(const PipelineContext&)>;

/// Throws Error (kUnsupported) that says what the object lacks.
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

}  // namespace energon
