// The base of all adapters: a batch source over another one that knows when the epoch ends.
//
// Its position is a node in the state of its source (SavableDataLoaderState::adapters).

#pragma once

#include <string_view>

#include "energon/loader/batch_source.h"

namespace energon {

/// For one thread at a time.
class Adapter : public BatchSource {
 public:
  /// True if the batch handed out last is the last of the epoch. May draw the next batch; if that
  /// fails, next() throws the error.
  virtual bool end_of_dataloader() = 0;

 protected:
  /// Puts `node`, the position of an adapter, over the state of its source.
  static SavableDataLoaderState put_over(State node, SavableDataLoaderState source);
  /// The opposite: returns the node of an adapter and the state of its source. Throws Error
  /// (kMismatch) if the outermost adapter in `state` is not a `type`.
  struct Parts {
    State node;
    SavableDataLoaderState source;
  };
  static Parts take_apart(const SavableDataLoaderState& state, std::string_view type);
};

}  // namespace energon
