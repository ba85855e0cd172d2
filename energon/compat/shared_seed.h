// One seed for all ranks.

#pragma once

#include <cstdint>

namespace energon {

class Comm;

/// Returns the seed of rank 0 on every rank, so that an order that all ranks share does not depend
/// on how each rank was started. All ranks call it. Throws Error of the Comm.
std::uint32_t shared_seed(Comm& comm, std::uint32_t seed);

}  // namespace energon
