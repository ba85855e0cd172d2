// Whether all ranks of a job read the same data under the same configuration.
//
// Each rank works out its share by itself. If one sees other data than the others, or has another
// setting, the shares overlap or leave gaps, and nobody notices. So ranks compare what they must
// have in common: over a Comm where there is one (here), else through the folder of checkpoints
// (energon/protocols/job_file.h).

#pragma once

#include <string>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/state/savable.h"

namespace energon {

/// What all ranks of a job have in common: the configuration in a state, without the rank. It names
/// the data with counts, sizes and exclusions.
Config common_config(Config state_config);

/// 16 hexadecimal digits that differ if `common` does.
std::string agreement_digest(const Config& common);

/// All ranks call it with what they have in common, once some digest is another: throws Error
/// (kMismatch) on every rank that lists the differences to rank 0. Returns if there are none but
/// digests that only some ranks have, which may be missing.
void explain_disagreement(Comm& comm, const Config& common);

/// Throws Error on every rank, with the ranks where it failed: kMismatch with all differences if
/// configuration or data are not the same everywhere, kInvalidArgument if a loader's rank or world
/// size is not that of `comm`; of save_state_rank() and the Comm. All ranks call it; the first call
/// with a fresh loader is the best place. Sends 16 bytes a rank.
void check_ranks_agree(SavableDataLoader& loader, Comm& comm);

}  // namespace energon
