// A leaf dataset without files, for tests that need many cheap pipelines.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/read/leaf_dataset.h"

namespace energon::testing {

/// Samples with the keys "<name><index>" and no fields.
class MemoryLeaf final : public LeafDataset {
 public:
  MemoryLeaf(std::string name, std::vector<std::int64_t> shard_counts)
      : name_(std::move(name)), shard_counts_(std::move(shard_counts)) {}

  const std::vector<std::int64_t>& shard_counts() const override { return shard_counts_; }
  std::int64_t sample_count() const override {
    std::int64_t sum = 0;
    for (const std::int64_t count : shard_counts_) {
      sum += count;
    }
    return sum;
  }
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  Config config() const override {
    return {{"type", "MemoryLeaf"}, {"name", name_}, {"shard_counts", shard_counts_}};
  }
  std::unique_ptr<LeafReader> open_reader() const override {
    return std::make_unique<Reader>(name_);
  }

 private:
  class Reader final : public LeafReader {
   public:
    explicit Reader(std::string name) : name_(std::move(name)) {}

    void read(std::span<const std::int64_t> indexes, BufferAllocator& /*allocator*/,
              std::vector<Sample>& samples) override {
      for (const std::int64_t index : indexes) {
        Sample sample;
        sample.keys = {name_ + std::to_string(index)};
        samples.push_back(std::move(sample));
      }
    }
    FailedSample describe(std::int64_t index) override { return {.index_in_shard = index}; }
    std::optional<std::int64_t> broken_file(std::int64_t /*index*/) override {
      return std::nullopt;
    }
    bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return false; }

   private:
    const std::string name_;
  };

  const std::string name_;
  const std::vector<std::int64_t> shard_counts_;
  const std::vector<std::int64_t> excluded_;
};

}  // namespace energon::testing
