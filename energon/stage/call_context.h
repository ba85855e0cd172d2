// CallContext: what a user function can query besides its data, including its random number
// generator, a CallRng.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "energon/order/rng.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"

namespace energon {

// Random numbers for user functions.
//
// The distributions are implemented here because those of <random> differ between standard
// libraries; a restored sample must be augmented the same way by every build.

/// The usual draws over MT19937. Also a standard UniformRandomBitGenerator, for <random> and
/// std::shuffle. Not thread-safe.
class CallRng {
 public:
  using result_type = std::uint32_t;

  explicit CallRng(std::uint32_t seed) : generator_(seed) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFF'FFFF; }
  /// The next 32 bits.
  result_type operator()() { return generator_(); }

  /// Uniform in [0, 1), with 53 random bits: two words.
  double uniform();
  /// Uniform in [low, high). Throws Error (kInvalidArgument) unless both are finite and low < high.
  double uniform(double low, double high);
  /// Uniform in [0, n), without bias: two words, rarely more. Throws Error (kInvalidArgument)
  /// unless n > 0.
  std::int64_t integer(std::int64_t n);
  /// True with probability `p`. Throws Error (kInvalidArgument) unless 0 <= p <= 1.
  bool chance(double p);
  /// A seed in [0, 2^63) for another generator, such as that of torch (at::manual_seed,
  /// torch.Generator().manual_seed): two words. Each call returns a new seed.
  std::int64_t seed();

 private:
  std::uint64_t next_64();

  Mt19937 generator_;
};

/// Resources shared by all calls of one stage.
struct CallResources {
  std::uint32_t seed = 0;  ///< of the job, not of the worker
  /// Null means the heap.
  std::shared_ptr<BufferAllocator> memory = nullptr;
};

/// Valid for the duration of one call.
class CallContext {
 public:
  /// `key` is the key of the item being made. It and `resources` must outlive the context.
  CallContext(const CallResources& resources, const RestoreKey& key, std::int64_t call)
      : resources_(resources), key_(key), call_(call) {}

  /// A generator seeded by (seed, restore key), so that a restored item gets the same augmentation
  /// as before. Created on first use.
  CallRng& rng();

  /// Memory for tensors and bytes that the function creates: in a worker, shared memory that is
  /// sent without a copy. Consecutive allocations are adjacent (energon/sample/buffer_allocator.h).
  /// Values may keep their buffers beyond the call.
  BufferAllocator& memory() const;

  /// Number of calls of the function before this one, on this logical shard.
  std::int64_t call() const { return call_; }

  const RestoreKey& restore_key() const { return key_; }

 private:
  const CallResources& resources_;
  const RestoreKey& key_;
  const std::int64_t call_;
  std::optional<CallRng> rng_;
};

/// While it lives, current() on this thread is the number of the item that a pipeline is making:
/// the items of the logical shard before it, in all epochs. Set by what drives the pipeline, for
/// functions that ask for it. Scopes may be nested.
class ItemNumber {
 public:
  explicit ItemNumber(std::int64_t number);
  ~ItemNumber();
  ItemNumber(const ItemNumber&) = delete;
  ItemNumber& operator=(const ItemNumber&) = delete;

  static std::optional<std::int64_t> current();

 private:
  const std::optional<std::int64_t> outer_;
};

template <class Signature>
class ContextFunction;

/// A std::function that gets a CallContext after its arguments. Also accepts functions of the
/// arguments alone.
template <class Result, class... Arguments>
class ContextFunction<Result(Arguments...)>
    : public std::function<Result(Arguments..., CallContext& context)> {
 public:
  using Base = std::function<Result(Arguments..., CallContext& context)>;
  using Base::Base;

  template <class Function>
  requires std::is_invocable_r_v<Result, Function&, Arguments...>
  // NOLINTNEXTLINE(google-explicit-constructor): like std::function
  ContextFunction(Function function)
      : Base([function = std::move(function)](Arguments... arguments, CallContext&) mutable {
          return function(std::forward<Arguments>(arguments)...);
        }) {}
};

}  // namespace energon
