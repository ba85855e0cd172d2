// Upper bounds for the cost of a batch, each with the count at the time it was set. Lower a bound
// together with the code that makes it possible; raise one only with a reason in the commit.

#pragma once

namespace energon::testing {

/// Calls of operator new for a batch of 64 samples in the steady state, with g++ 12.
struct AllocationBounds {
  double read_one_part;   ///< loader without workers, 300 B
  double read_two_parts;  ///< 600 and 200 B
  double send;            ///< worker: read, pack and send, 600 and 200 B
  double receive;         ///< trainer: receive, decode and free, 600 and 200 B
};
inline constexpr AllocationBounds kAllocations = {
    .read_one_part = 33,   // 30.3
    .read_two_parts = 50,  // 46.5
    .send = 74,            // 68.9
    .receive = 13,         // 11.0
};

/// System calls, in the steady state.
struct SystemCallBounds {
  double preads;  ///< for a batch of 64 from 16 slices

  /// For the transport, on both sides together. A sleep costs four calls, a nap of the trainer one.
  double small_batch;  ///< for 1 or 8 samples of 300 B
  double batch;        ///< for 64 samples, which the trainer waits for
};
inline constexpr SystemCallBounds kSystemCalls = {
    .preads = 4.2,       // 3.8
    .small_batch = 0.2,  // 0.01 to 0.09
    .batch = 2,          // 0.4; more if the worker gets no core
};

}  // namespace energon::testing
