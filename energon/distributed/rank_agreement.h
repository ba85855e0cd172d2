// Checks that all ranks of a job read the same data with the same configuration.
//
// Each rank computes its share independently. If one rank sees different data or has a different
// setting, the shares silently overlap or leave gaps. So ranks compare what they must share: over a
// Comm if there is one (this file), else through the checkpoint folder
// (energon/autosave/resume_point.h).

#pragma once

#include <string>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/batch_source.h"
#include "energon/state/savable.h"

namespace energon {

/// A digest of `common` as 16 hexadecimal digits: different configurations get different digests.
std::string agreement_digest(const Config& common);

/// All ranks call it with their `common` once some digest differs. Throws Error (kMismatch) on
/// every rank, with the differences from rank 0. Returns normally if the only difference is digests
/// that some ranks have and others lack, which is allowed.
void explain_disagreement(Comm& comm, const Config& common);

/// The ranks whose source keeps a position, ascending. All ranks call it.
std::vector<int> reading_ranks(const BatchSource& source, Comm& comm);

/// Throws Error on every rank, with the ranks where it failed: kMismatch with all differences if
/// configuration or data are not the same everywhere, kInvalidArgument if the rank or world size of
/// a loader differs from that in `comm`; Errors of save_state_rank() and the Comm. All ranks call
/// it, preferably as their first call, with a fresh source. Each rank sends 16 bytes. If only one
/// rank reads (keeps_position()), there is nothing to compare.
void check_ranks_agree(BatchSource& source, Comm& comm);

}  // namespace energon
