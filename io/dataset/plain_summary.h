// What an earlier opening noted of the plain tars of a folder. Private to io.
//
// Nothing is prepared here, so the counts that decide which rank reads what follow from the tars
// themselves. Hence opening still asks for the size and the modification time of each tar: one
// system call. The rest is in `summary/<name>-<digest>.bin` in the cache folder
// (io/dataset/shard_summary.h), and is checked before a tar is read for the first time.

#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_summary.h"

namespace energon {

/// Immutable, so safe to share between threads.
class PlainSummary : public std::enable_shared_from_this<PlainSummary> {
 public:
  /// The summary of the tars in the folder of `list`, empty at first. Null if the options ask for
  /// checks at opening, if the tars are few, or if there is no cache folder. Throws Error (kIo).
  static std::shared_ptr<const PlainSummary> find(const ShardList& list,
                                                  const OpenOptions& options);

  PlainSummary(std::string folder, const OpenOptions& options, std::string path);

  /// If the tar of `shard`, whose name is set, is the one that was noted: fills in the rest and
  /// returns true. Adds what is odd about its end to `warnings`.
  bool describe(ShardFile& shard, std::vector<std::string>& warnings) const;

  /// Adds to a shard that was looked at what note() needs. Throws Error if a file cannot be read.
  static void digest(ShardFile& shard);

  /// ShardSet::check for the shards that were described. Requires that a shared_ptr owns this.
  CheckShard check() const;

  /// Notes the shards of `set` for the next opening, if it looked at any of them. Where that fails,
  /// the next opening looks again.
  void note(const ShardSet& set) const;

 private:
  ShardFile check(const ShardFile& shard) const;
  std::string index_path(const ShardFile& shard, bool is_in_cache) const;

  const std::string folder_;
  const OpenOptions options_;
  const std::string path_;
  ShardSummary summary_;
  std::unordered_map<std::string_view, const SummarizedShard*> shards_;  // by name, of summary_
};

}  // namespace energon
