// Checks that all ranks of a job read the same data with the same configuration.
//
// Each rank computes its share by itself. If one rank sees different data or has a different
// setting, the shares silently overlap or leave gaps. So ranks compare what they must have in
// common: over a Comm if there is one (this file), else through the checkpoint folder
// (energon/protocols/job_file.h).

#pragma once

#include <string>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/state/savable.h"

namespace energon {

/// What all ranks of a job have in common: the configuration in a state without the rank. It
/// identifies the data, with counts, sizes and exclusions.
Config common_config(Config state_config);

/// A digest of `common` as 16 hexadecimal digits: different configurations get different digests.
std::string agreement_digest(const Config& common);

/// All ranks call it with their `common` once some digest differs. Throws Error (kMismatch) on
/// every rank, with the differences from rank 0. Returns normally if the only difference is digests
/// that some ranks have and others lack, which is allowed.
void explain_disagreement(Comm& comm, const Config& common);

/// Throws Error on every rank, with the ranks where it failed: kMismatch with all differences if
/// configuration or data are not the same everywhere, kInvalidArgument if a loader's rank or world
/// size differs from that in `comm`; Errors of save_state_rank() and the Comm. All ranks call it,
/// preferably as their first call, with a fresh loader. Each rank sends 16 bytes.
void check_ranks_agree(SavableDataLoader& loader, Comm& comm);

}  // namespace energon
