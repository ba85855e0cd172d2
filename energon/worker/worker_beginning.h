// Where a worker begins: the payload of the request that spawns it.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/loader_state.h"

namespace energon {

/// The start position of a worker.
struct WorkerBeginning {
  std::vector<SavableDatasetCheckpoint> streams;  ///< streams of the worker, in order
  std::int64_t epoch = 0;                         ///< the epoch to start in
};

/// Not a stable format: both sides are the same build.
std::string encode_beginning(const WorkerBeginning& beginning);
/// Throws Error (kCorruptData).
WorkerBeginning decode_beginning(std::string_view bytes);

}  // namespace energon
