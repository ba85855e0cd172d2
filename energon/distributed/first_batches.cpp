#include "energon/distributed/first_batches.h"

#include <utility>

#include "energon/distributed/batch_slices.h"
#include "energon/state/byte_codec.h"

namespace energon {

void FirstBatches::add(const Sample& batch) {
  keys_.push_back({batch.restore_key.bytes(), sample_count(batch)});
  if (batches_.size() + 1 == keys_.size()) {
    batches_.push_back(batch);
    batches_.back().place.reset();  // like those that are rebuilt
  }
}

void FirstBatches::clear() {
  keys_.clear();
  batches_.clear();
}

std::int64_t FirstBatches::samples() const {
  std::int64_t samples = 0;
  for (const Key& key : keys_) {
    samples += key.samples;
  }
  return samples;
}

std::span<const Sample> FirstBatches::rebuild(BatchSource& source) {
  if (batches_.size() != keys_.size()) {
    batches_.clear();
    for (const Key& key : keys_) {
      batches_.push_back(source.restore_sample(
          key.restore_key.empty() ? RestoreKey() : RestoreKey::from_bytes(key.restore_key)));
    }
  }
  return batches_;
}

std::string FirstBatches::save() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(keys_.size()));
  for (const Key& key : keys_) {
    writer.text(key.restore_key);
    writer.i64(key.samples);
  }
  return writer.take();
}

void FirstBatches::restore(std::string_view bytes) {
  ByteReader reader(bytes, "the first batches in a state");
  std::vector<Key> keys(reader.count(12));
  for (Key& key : keys) {
    key.restore_key = reader.text();
    key.samples = reader.i64();
  }
  reader.finish();
  keys_ = std::move(keys);
  batches_.clear();
}

}  // namespace energon
