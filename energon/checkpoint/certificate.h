// Proof of what was delivered: a rolling digest over the samples of a logical shard.
//
// Each sample contributes its key and, if the dataset was prepared with checksums and they are
// verified, the checksums of its sources. Its position is its place in the chain. The chain of a
// logical shard depends neither on the layout of the job nor on the micro batch size. Two runs that
// deliver the same samples in the same order therefore have the same certificate, on any ranks and
// workers.
//
// A chain shows that two runs differ, not where. The certificate of a batch is a new chain over
// this batch, so it depends only on the samples of the batch. The certificate of a global batch
// combines those of its micro batches.

#pragma once

#include <cstdint>
#include <span>

#include "energon/sample/sample.h"

namespace energon {

/// Covers all samples that one logical shard has ever delivered.
struct Certificate {
  std::uint64_t digest = 0;
  std::int64_t samples = 0;

  bool operator==(const Certificate&) const = default;
};

/// Adds the samples of a delivered batch to the chain, in order.
void extend(Certificate& certificate, const Sample& batch);

/// The certificate of `batch` alone.
Certificate certificate_of_batch(const Sample& batch);

/// The certificate of a global batch. `micro_batches`: the certificates of its micro batches, in
/// the order of the job.
Certificate certificate_of_global_batch(std::span<const Certificate> micro_batches);

/// One logical shard of a rank or job, for combine().
struct CertificatePart {
  std::int64_t logical_shard = 0;
  Certificate certificate;
};
/// The digest of several logical shards: of a rank or a job. The order of `parts` does not matter.
Certificate combine(std::span<const CertificatePart> parts);

}  // namespace energon
