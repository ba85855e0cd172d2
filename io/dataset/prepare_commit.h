// Replaces the files of a prepared dataset with new ones: all or none.
//
// Energon's file names are fixed, so the files cannot all change in one step. Instead, a list of
// the moves is published first, in one step. From then on, every process that opens or prepares the
// dataset carries out the moves before anything else. A process that opens the dataset earlier sees
// the old set, a later one sees the new set, no matter which process is killed, or when.
//
//   .nv-meta.prepare.<id>/     being built by one prepare
//     <id>/journal               what to move where, written last
//     <id>/…                     the new files
//   .nv-meta.commit/<id>/…     the same folder, renamed: published. rename() replaces only an empty
//                              folder or nothing, so there is one commit at a time
//
// A step moves its source away, and the path of the source contains the id. So a process that is
// late, in any step, finds nothing to move and does no harm, and any number of processes may carry
// out one commit at once, without locks. Files to remove are moved into the folder of the commit.
// The first step replaces .info.json with a note, the last one with the new .info.json: readers
// that do not know about commits, such as Energon, fail in between and never see a mixture.
// docs/formats/energon_files.md gives the journal.
//
// A reader of more than one of these files, such as .info.json and index.sqlite, must get all of
// them from the old set or all from the new one. So all code that reads a prepared folder does so
// inside read_committed().

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

// --- Reading ---

/// Completes a prepare that was stopped while it replaced the files in the folder `dataset_path`,
/// then calls `read`, and repeats this until no file was replaced during the call. So `read` may be
/// called several times, and the last call counts. An Error of `read` is passed on if no file was
/// replaced during the call. Fast for folders that were never prepared. Throws Error:
/// kInvalidArgument if the folder keeps being prepared, or if another user must complete a prepare;
/// kCorruptData for an invalid journal; kIo.
void read_committed(const std::string& dataset_path, const std::function<void()>& read);

/// The same, for code that reads several datasets.
void read_committed(std::span<const std::string> dataset_paths, const std::function<void()>& read);

// --- The journal ---
//
// The steps of a commit.

struct CommitStep {
  enum class Kind : std::uint8_t {
    kMove,           ///< `from` is the name of a file in <id>/
    kMoveTemporary,  ///< `from` is a temporary file of `to`, next to it (io/shared_folder.h)
    kRemove,         ///< `to` need not exist
  };
  Kind kind = Kind::kMove;
  std::string from = {};
  std::string to = {};  ///< relative to the dataset's folder, like a temporary `from`
};

/// The bytes of <id>/journal.
std::string encode_journal(const std::vector<CommitStep>& steps);

/// The steps in the content of the file `journal`. Throws Error (kCorruptData) if it is damaged, or
/// if a step names a file that prepare does not write.
std::vector<CommitStep> decode_journal(std::string_view text, const std::string& journal);

// --- Committing ---

/// The content of .info.json during a commit.
std::string_view unfinished_note();

/// The folder that holds the published commit of a dataset.
std::string commit_folder(const std::string& dataset_path);

/// The published commit itself, a folder in commit_folder(), or "" if there is none.
std::string published_commit(const std::string& dataset_path);

/// Publishes `staging` (`.nv-meta.prepare.<id>`, with `<id>/` in it), after completing any commit
/// that another process published before. If it throws Error (kIo), nothing is published.
void publish_commit(const std::string& dataset_path, const std::string& staging);

/// Completes the published commit, whichever process published it; fast if there is none. On
/// return, `dataset_path` has no commit, so its files are from one prepare. Without write
/// permission, waits up to half a minute for another process to complete it. Throws Error:
/// kInvalidArgument if another user must complete the commit, kCorruptData for an invalid journal,
/// kIo.
void complete_commit(const std::string& dataset_path);

}  // namespace energon
