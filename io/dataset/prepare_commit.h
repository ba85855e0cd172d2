// How the files of a prepared dataset are replaced by new ones, all or none. Private to io.
//
// Energon's file names are fixed, so they cannot all change in one step. Instead the list of what
// is to be moved is published first, in one step; from then on everyone who meets it, opens or
// prepares, carries the moves out before doing anything else. Whoever comes earlier sees the old
// set, whoever comes later the new one, and it does not matter who is killed when.
//
//   .nv-meta.prepare.<id>/     being built by one prepare
//     <id>/journal               what to move where, written last
//     <id>/…                     the new files
//   .nv-meta.commit/<id>/…     the same folder, renamed: published. rename() takes an empty folder
//                              or nothing in its place, so one commit excludes another
//
// A step takes its source away, by a path that has the id in it: a process that comes too late, in
// whatever step, finds nothing to move and does no harm. So any number of processes may carry one
// commit out at once, without locks. What is to be removed is moved into the folder of the commit.
// The first step puts a note in the place of .info.json, the last one the new .info.json: readers
// that know nothing of commits, such as Energon, fail in between and never get a mixture.
// docs/formats/energon_files.md gives the journal.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

struct CommitStep {
  enum class Kind : std::uint8_t {
    kMove,           ///< `from` is the name of a file in <id>/
    kMoveTemporary,  ///< `from` is a temporary file of `to`, beside it (io/shared_folder.h)
    kRemove,         ///< `to` need not be there
  };
  Kind kind = Kind::kMove;
  std::string from = {};
  std::string to = {};  ///< relative to the dataset's folder, as a temporary `from`
};

/// What stands in .info.json while a commit is carried out.
std::string_view unfinished_note();

/// The folder that holds the published commit of a dataset.
std::string commit_folder(const std::string& dataset_path);

/// The published commit itself, a folder in commit_folder(); empty if there is none.
std::string published_commit(const std::string& dataset_path);

/// The bytes of <id>/journal.
std::string encode_journal(const std::vector<CommitStep>& steps);

/// Publishes `staging` (`.nv-meta.prepare.<id>`, with `<id>/` in it), after what another process
/// published before has been carried out. Throws Error (kIo): nothing was published.
void publish_commit(const std::string& dataset_path, const std::string& staging);

/// Carries out what is published, whoever published it; quick if there is nothing. Returns when
/// `dataset_path` has no commit, so that its files are of one prepare. Where this process may not
/// write, it waits up to half a minute for the one that does. Throws Error: kInvalidArgument that
/// says who must finish it, kCorruptData for a journal that cannot be one of ours, kIo.
void complete_commit(const std::string& dataset_path);

}  // namespace energon
