// The lines of a dump: one JSON object per delivered batch.
//
// With certificates, in a job with logical shards, the end of each epoch has a line, too. It says
// that no more of the epoch comes from the logical shards of this rank.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/order/worker_config.h"
#include "energon/sample/sample.h"

namespace energon::cli {

enum class Certificates { kOff, kOn };

class BatchLines {
 public:
  /// For the batches of the rank with this configuration, from its start.
  BatchLines(const WorkerConfig& config, Certificates certificates);

  /// Continues from the saved position of the rank instead.
  void begin_at(const SavableDataLoaderState& state);

  /// Prints the line of `batch`, and before it the ends of epochs that the loader did not report
  /// (epoch policy loop). Throws as Output::write().
  void print_batch(const Sample& batch);

  /// Prints the line of an end of epoch that the loader reported; nothing unless ends have lines.
  void print_end_of_epoch();

 private:
  bool has_ends_of_epochs() const;
  void append_batch(const Sample& batch);
  void append_certificate(const Sample& batch);
  void print_micro_batches();

  const WorkerConfig config_;
  const Certificates mode_;

  std::string line_;
  std::int64_t index_ = 0;                   // of the next batch in the rank's stream
  std::map<int, Certificate> certificates_;  // by logical shard
  std::map<int, Turn> turns_;                // by logical shard, of its next batch
  std::int64_t epoch_ = 0;                   // the epoch whose end is printed next
};

}  // namespace energon::cli
