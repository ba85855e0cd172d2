// The most that a batch may cost, all in one place. Beside each bound: what was counted when it was
// set. A bound is lowered with the code that makes it possible, and raised only for a reason that
// the commit gives.

#pragma once

namespace energon::testing {

/// operator new, a batch of 64 samples in the steady state, of g++ 12.
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
  double preads;  ///< of a batch of 64 from 16 slices

  /// Of the transport, on both sides together. A sleep costs four, a nap of the trainer one.
  double small_batch;  ///< of 1 or 8 samples of 300 B
  double batch;        ///< of 64, which the trainer waits for
};
inline constexpr SystemCallBounds kSystemCalls = {
    .preads = 4.2,       // 3.8
    .small_batch = 0.2,  // 0.01 to 0.09
    .batch = 2,          // 0.4; more where the worker gets no core
};

}  // namespace energon::testing
