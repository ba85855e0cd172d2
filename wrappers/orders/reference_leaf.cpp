#include "wrappers/orders/reference_leaf.h"

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace energon {
namespace {

class ReferenceReader final : public LeafReader {
 public:
  explicit ReferenceReader(std::shared_ptr<const LeafDataset> inner) : inner_(std::move(inner)) {}

  void read(std::span<const std::int64_t> indexes, BufferAllocator& /*allocator*/,
            std::vector<Sample>& samples) override {
    samples.resize(samples.size() + indexes.size());
  }
  FailedSample describe(std::int64_t index) override {
    return inner_->open_reader()->describe(index);
  }
  std::optional<std::int64_t> broken_file(std::int64_t /*index*/) override { return std::nullopt; }
  bool needs_file(std::int64_t /*index*/, std::int64_t /*file*/) const override { return false; }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
};

class ReferenceLeaf final : public LeafDataset {
 public:
  explicit ReferenceLeaf(std::shared_ptr<const LeafDataset> inner) : inner_(std::move(inner)) {}

  const std::vector<std::int64_t>& shard_counts() const override { return inner_->shard_counts(); }
  std::int64_t sample_count() const override { return inner_->sample_count(); }
  const std::vector<std::int64_t>& excluded() const override { return inner_->excluded(); }
  Config config() const override { return inner_->config(); }
  std::unique_ptr<LeafReader> open_reader() const override {
    return std::make_unique<ReferenceReader>(inner_);
  }

 private:
  const std::shared_ptr<const LeafDataset> inner_;
};

}  // namespace

std::shared_ptr<const LeafDataset> reference_leaf(std::shared_ptr<const LeafDataset> inner) {
  return std::make_shared<const ReferenceLeaf>(std::move(inner));
}

}  // namespace energon
