// Certificate: a rolling digest that proves which samples a logical shard delivered.
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
#include <map>
#include <optional>
#include <span>
#include <vector>

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
/// The digest of several logical shards, such as those of a rank or a job. The order of `parts`
/// does not matter.
Certificate combine(std::span<const CertificatePart> parts);

// The global batches of a job, put together from the certificates of its micro batches.
//
// Each rank records, for every batch, its place and its certificate, and at the end of an epoch the
// number of micro batches of each of its logical shards. The records of all ranks, on any sequence
// of layouts, make up the epochs of the job:
//
//   DeliveredEpoch& epoch = epochs[batch.place->epoch];
//   epoch.micro_batches[batch.place->micro_batch(logical_shards)] = certificate_of_batch(batch);
//
// Two jobs that read the same data have the same global batches. docs/rescaling.md describes what
// the certificates cover.

/// The record of one epoch of a job. A value type. Requires: numbers are not negative and at most
/// 2^53, including those of the micro batches that `ended` counts.
struct DeliveredEpoch {
  std::int64_t epoch = 0;
  std::int64_t logical_shards = 1;  ///< of the job
  /// By number (BatchPlace::micro_batch()).
  std::map<std::int64_t, Certificate> micro_batches = {};
  /// The logical shards that ended the epoch, with their number of micro batches.
  std::map<std::int64_t, std::int64_t> ended = {};
};

/// One global batch: `micro_batches` consecutive micro batches. The last global batch of an epoch
/// may have fewer, and so may one in which logical shards ended.
struct GlobalBatch {
  std::int64_t number = 0;  ///< in its epoch
  std::int64_t micro_batches = 0;
  Certificate certificate = {};

  bool operator==(const GlobalBatch&) const = default;
};

/// The result of global_batches().
struct GlobalBatches {
  std::int64_t epoch = 0;
  /// The complete global batches in order, up to the first incomplete one.
  std::vector<GlobalBatch> whole = {};
  /// The number of the last global batch, if the record ends within it.
  std::optional<std::int64_t> left_out = std::nullopt;
  /// Numbers of micro batches that are missing, although later ones or `ended` show that they were
  /// delivered: the first ones, at most 20, and the total.
  std::vector<std::int64_t> missing = {};
  std::int64_t missing_count = 0;
};

/// The global batches of `size` micro batches each. `first` is the first micro batch of the record
/// if the record begins within the epoch, a multiple of `size`. Throws Error (kMismatch) if
/// after_end() finds a micro batch. Requires: `size` is at least 1, and no micro batch is before
/// `first`.
GlobalBatches global_batches(const DeliveredEpoch& epoch, std::int64_t size,
                             std::int64_t first = 0);

/// The first micro batch after its logical shard had ended the epoch, which means that the records
/// belong to different jobs. nullopt if there is none.
std::optional<std::int64_t> after_end(const DeliveredEpoch& epoch);

/// Throws Error (kMismatch) that lists the micro batches that are missing.
void check_none_missing(const GlobalBatches& batches);

/// Throws Error (kMismatch) that lists the logical shards without a recorded end of the epoch. For
/// epochs that are followed by another one.
void check_ended(const DeliveredEpoch& epoch);

}  // namespace energon
