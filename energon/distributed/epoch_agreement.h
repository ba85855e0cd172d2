// How ranks that end an epoch together agree on its length.
//
// Each rank tells the others how many batches it has, and a digest of what all ranks must have in
// common. A rank that cannot tell this sends the reason instead, so that no rank waits for it.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "energon/distributed/comm.h"
#include "io/json.h"

namespace energon {

/// What a rank contributes to an epoch.
struct EpochShare {
  std::optional<std::int64_t> batches;  ///< nothing if not known
  BoxedJson common_settings;            ///< of its source
};

/// Numbers of batches in an epoch.
struct EpochLengths {
  std::int64_t own = 0;     ///< of this rank
  std::int64_t fewest = 0;  ///< of the rank with the fewest
  std::int64_t most = 0;    ///< of the rank with the most
};

/// All ranks call it together. `own_share` returns the share of this rank, or throws. Throws the
/// same Error on every rank: that of the first rank whose `own_share` threw; kInvalidArgument if a
/// rank does not know its number of batches; kMismatch with the differences if the common settings
/// differ. Throws Error of the Comm.
EpochLengths agree_on_epoch(Comm& comm, const std::function<EpochShare()>& own_share);

}  // namespace energon
