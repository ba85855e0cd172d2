// One seed for all ranks.

#pragma once

#include <cstdint>

namespace energon {

class Comm;

/// The seed that rank 0 passed, on every rank: what decides an order that ranks share must not
/// depend on how each of them was started. Throws Error of the Comm.
std::uint32_t shared_seed(Comm& comm, std::uint32_t seed);

}  // namespace energon
