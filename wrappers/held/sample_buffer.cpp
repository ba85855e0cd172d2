#include "wrappers/held/sample_buffer.h"

#include <utility>

#include "wrappers/held/combine.h"

namespace energon {

SampleBuffer::SampleBuffer(Dataset& inner, PayloadBudget& budget)
    : SampleBuffer([&inner](const RestoreKey& key) { return rebuild_sample(inner, key); }, budget) {
}

void SampleBuffer::push_back(Sample sample) {
  const std::uint64_t bytes = payload_bytes(sample);
  Entry entry;
  if (bytes <= budget_.limit_bytes && budget_.held_bytes <= budget_.limit_bytes - bytes) {
    entry = {std::move(sample), bytes, true};
  } else {
    entry.sample.restore_key = std::move(sample.restore_key);
  }
  entries_.push_back(std::move(entry));
  budget_.held_bytes += entries_.back().payload_bytes;
}

std::vector<Sample> SampleBuffer::take_front(std::size_t count) {
  std::vector<Sample> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!entries_[i].is_held) {
      samples[i] = rebuild_(entries_[i].sample.restore_key);
    }
  }
  for (Sample& sample : samples) {
    Entry& entry = entries_.front();
    if (entry.is_held) {
      sample = std::move(entry.sample);
    }
    budget_.held_bytes -= entry.payload_bytes;
    entries_.pop_front();
  }
  return samples;
}

void SampleBuffer::clear() {
  for (const Entry& entry : entries_) {
    budget_.held_bytes -= entry.payload_bytes;
  }
  entries_.clear();
}

std::string SampleBuffer::save() const {
  std::vector<RestoreKey> keys;
  keys.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    keys.push_back(entry.sample.restore_key);
  }
  return encode_keys(keys);
}

void SampleBuffer::restore(std::string_view saved) {
  std::deque<Entry> entries;
  for (RestoreKey& key : decode_keys(saved)) {
    entries.emplace_back().sample.restore_key = std::move(key);
  }
  clear();
  entries_ = std::move(entries);
}

}  // namespace energon
