// Adapters: batch sources over another source, which know the last batch of the epoch.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/loader/batch_source.h"

namespace energon {

/// The base of all adapters. Its position is a node in the state of its source
/// (SavableDataLoaderState::adapters). For one thread at a time.
class Adapter : public BatchSource {
 public:
  /// True if the last delivered batch is the last of the epoch. May draw the next batch; if that
  /// fails, next() throws the error.
  virtual bool end_of_dataloader() = 0;

 protected:
  /// Puts `node`, the position of an adapter, over the state of its source.
  static SavableDataLoaderState put_over(State node, SavableDataLoaderState source);
  /// The inverse: returns the node of an adapter and the state of its source. Throws Error
  /// (kMismatch) if the outermost adapter in `state` is not a `type`.
  struct Parts {
    State node;
    SavableDataLoaderState source;
  };
  static Parts take_apart(const SavableDataLoaderState& state, std::string_view type);
};

/// The base of adapters that forward queries about the source and its data. The adapter implements
/// batches and the position: next(), skip(), save_state_rank(), restore_state_rank() and
/// end_of_dataloader(). `Source` is BatchSource or Adapter. For one thread at a time.
template <class Source>
class ForwardingAdapter : public Adapter {
 public:
  Config state_config() override;
  bool keeps_position() const override { return source_->keeps_position(); }
  void stop() override { source_->stop(); }
  std::vector<std::string> warnings() const override { return source_->warnings(); }
  std::optional<std::int64_t> size() const override { return source_->size(); }
  std::optional<std::int64_t> batches_left() const override { return source_->batches_left(); }
  std::int64_t epoch() const override { return source_->epoch(); }
  void set_epoch(std::int64_t epoch) override { source_->set_epoch(epoch); }
  std::optional<std::int64_t> remainder() const override { return source_->remainder(); }
  Config common_settings() const override;
  Sample restore_sample(const RestoreKey& key) override { return source_->restore_sample(key); }

 protected:
  /// Shares ownership of `source`. Requires: it is not null.
  explicit ForwardingAdapter(std::shared_ptr<Source> source) : source_(std::move(source)) {}

  const std::shared_ptr<Source> source_;
};

extern template class ForwardingAdapter<BatchSource>;
extern template class ForwardingAdapter<Adapter>;

}  // namespace energon
