#include "cli/reference_leaf.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace energon::cli {
namespace {

class ReferenceReader final : public LeafReader {
 public:
  ReferenceReader(std::shared_ptr<const LeafDataset> inner, std::size_t leaf)
      : inner_(std::move(inner)), leaf_(leaf) {}

  void read(std::span<const std::int64_t> indexes, BufferAllocator& /*allocator*/,
            std::vector<Sample>& samples) override {
    for (const std::int64_t index : indexes) {
      Sample sample;
      sample.keys.push_back(reference_key(leaf_, index));
      samples.push_back(std::move(sample));
    }
  }
  FailedSample describe(std::int64_t index) override {
    return inner_->open_reader()->describe(index);
  }
  std::optional<std::int64_t> broken_file(std::int64_t /*index*/) override { return std::nullopt; }
  bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return false; }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
  const std::size_t leaf_;
};

class ReferenceLeaf final : public LeafDataset {
 public:
  ReferenceLeaf(std::shared_ptr<const LeafDataset> inner, std::size_t leaf)
      : inner_(std::move(inner)), leaf_(leaf) {}

  const std::vector<std::int64_t>& shard_counts() const override { return inner_->shard_counts(); }
  std::int64_t sample_count() const override { return inner_->sample_count(); }
  const std::vector<std::int64_t>& excluded() const override { return inner_->excluded(); }
  Config config() const override { return inner_->config(); }
  std::unique_ptr<LeafReader> open_reader() const override {
    return std::make_unique<ReferenceReader>(inner_, leaf_);
  }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
  const std::size_t leaf_;
};

}  // namespace

std::string reference_key(std::size_t leaf, std::int64_t index) {
  return fmt::format("{}/{}", leaf, index);
}

std::shared_ptr<const LeafDataset> reference_leaf(std::shared_ptr<const LeafDataset> inner,
                                                  std::size_t leaf) {
  return std::make_shared<const ReferenceLeaf>(std::move(inner), leaf);
}

}  // namespace energon::cli
