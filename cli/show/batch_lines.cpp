#include "cli/show/batch_lines.h"

#include <iterator>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/show/output.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "io/hash.h"

namespace energon::cli {
namespace {

// The logical shard that made a batch: the outermost stage of every restore key names it.
int logical_shard_of(const Sample& batch) {
  return static_cast<int>(
      split_key(batch.restore_key, Stage::kLogicalShard, 2, 1).integers.front());
}

}  // namespace

BatchLines::BatchLines(const WorkerConfig& config, Certificates certificates)
    : config_(config), mode_(certificates) {}

void BatchLines::begin_at(const SavableDataLoaderState& state) {
  for (const SavableDatasetCheckpoint& shard : state.streams) {
    certificates_[shard.logical_shard] = shard.certificate;
    turns_[shard.logical_shard] = shard.turn;
  }
  epoch_ = state.epoch + (state.epoch_finished ? 1 : 0);
  index_ = state.batch_index;
}

bool BatchLines::has_ends_of_epochs() const {
  return mode_ == Certificates::kOn && config_.logical_shards.has_value();
}

void BatchLines::print_batch(const Sample& batch) {
  if (has_ends_of_epochs()) {
    for (const std::int64_t epoch = batch.place.value().epoch; epoch_ < epoch;) {
      print_micro_batches();
    }
  }
  line_.clear();
  append_batch(batch);
  if (mode_ == Certificates::kOn) {
    append_certificate(batch);
  }
  line_ += "}\n";
  output().write(line_);
  ++index_;
}

void BatchLines::append_batch(const Sample& batch) {
  const int logical_shard = logical_shard_of(batch);
  const int worker = config_.worker_of(place_of(logical_shard, config_).stream);
  fmt::format_to(std::back_inserter(line_), R"({{"rank":{},"worker":{},"index":{},"keys":[)",
                 config_.rank, worker, index_);
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    line_ += i == 0 ? "" : ",";
    line_ += quoted_json(batch.keys[i]);
  }
  fmt::format_to(std::back_inserter(line_), R"(],"restore_key":{},"digest":"{}")",
                 quoted_json(batch.restore_key.text()), to_hex(digest(batch)));
}

void BatchLines::append_certificate(const Sample& batch) {
  const BatchPlace place = batch.place.value();
  Certificate& certificate = certificates_[place.logical_shard];
  extend(certificate, batch);
  fmt::format_to(std::back_inserter(line_), R"(,"logical_shard":{},"certificate":"{}")",
                 place.logical_shard, to_hex(certificate.digest));
  if (const std::optional<int> shards = config_.logical_shards) {
    turns_[place.logical_shard] = {place.epoch, place.turn + 1};
    fmt::format_to(std::back_inserter(line_),
                   R"(,"logical_shards":{},"epoch":{},"micro_batch":{},"batch_certificate":"{}")",
                   *shards, place.epoch, place.micro_batch(*shards),
                   to_hex(certificate_of_batch(batch).digest));
  }
}

void BatchLines::print_end_of_epoch() {
  if (has_ends_of_epochs()) {
    print_micro_batches();
  }
}

// The number of micro batches that each logical shard had in the epoch. Logical shards that ended
// it before the start of this run are left out: their line was printed then.
void BatchLines::print_micro_batches() {
  std::vector<int> shards;
  std::vector<std::int64_t> micro_batches;
  for (int stream = 0; stream < config_.stream_count(); ++stream) {
    const int shard = config_.logical_shard(stream);
    Turn& turn = turns_[shard];
    if (turn.epoch <= epoch_) {
      shards.push_back(shard);
      micro_batches.push_back(turn.epoch == epoch_ ? turn.count : 0);
      turn = {epoch_ + 1, 0};
    }
  }
  output().print(R"({{"rank":{},"end_of_epoch":{},"of_logical_shards":[{}],"micro_batches":[{}],)"
                 R"("logical_shards":{}}})"
                 "\n",
                 config_.rank, epoch_, fmt::join(shards, ","), fmt::join(micro_batches, ","),
                 *config_.logical_shards);
  ++epoch_;
}

}  // namespace energon::cli
