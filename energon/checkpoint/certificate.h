// Proof of what was delivered: a rolling digest over the samples of a logical shard.
//
// Each sample is folded in with its key and, where the dataset was prepared with checksums and they
// are verified, the checksums of what it was made of; its position is its place in the chain. The
// chain of a logical shard does not depend on the layout of the job nor on the micro batch size, so
// two runs that deliver the same samples in the same order have the same certificate, whatever
// ranks and workers they ran on.
//
// A chain says that two runs differ, not where. The certificate of a batch is a chain that begins
// with it, so it depends on nothing but its samples; that of a global batch puts those of its micro
// batches together.

#pragma once

#include <cstdint>
#include <span>

#include "energon/sample/sample.h"

namespace energon {

/// Of the samples that one logical shard delivered, ever.
struct Certificate {
  std::uint64_t digest = 0;
  std::int64_t samples = 0;

  bool operator==(const Certificate&) const = default;
};

/// Adds the samples of a delivered batch, in order.
void extend(Certificate& certificate, const Sample& batch);

/// Of the samples of `batch` alone.
Certificate certificate_of_batch(const Sample& batch);

/// Of a global batch, from the certificates of its micro batches in the order of the job.
Certificate certificate_of_global_batch(std::span<const Certificate> micro_batches);

/// The digest of several logical shards, each with its number: of a rank or a job. The order of
/// `parts` does not matter.
struct CertificatePart {
  std::int64_t logical_shard = 0;
  Certificate certificate;
};
Certificate combine(std::span<const CertificatePart> parts);

}  // namespace energon
