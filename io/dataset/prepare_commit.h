// Replaces the files of a prepared dataset with new ones: all or none. Private to io.
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
// A step moves its source away, and the path of the source contains the id. So a process that comes
// too late, in any step, finds nothing to move and does no harm, and any number of processes may
// carry out one commit at once, without locks. Files to remove are moved into the folder of the
// commit. The first step replaces .info.json with a note, the last one with the new .info.json:
// readers that do not know about commits, such as Energon, fail in between and never see a mixture.
// docs/formats/energon_files.md gives the journal.

#pragma once

#include <string>
#include <string_view>

#include "io/dataset/commit_journal.h"

namespace energon {

/// The content of .info.json while a commit is carried out.
std::string_view unfinished_note();

/// The folder that holds the published commit of a dataset.
std::string commit_folder(const std::string& dataset_path);

/// The published commit itself, a folder in commit_folder(); empty if there is none.
std::string published_commit(const std::string& dataset_path);

/// Publishes `staging` (`.nv-meta.prepare.<id>`, with `<id>/` in it), after completing any commit
/// that another process published before. Throws Error (kIo); nothing is published then.
void publish_commit(const std::string& dataset_path, const std::string& staging);

/// Completes the published commit, whichever process published it; fast if there is none. On
/// return, `dataset_path` has no commit, so its files are from one prepare. If this process is not
/// permitted to write, it waits up to half a minute for one that is. Throws Error: kInvalidArgument
/// that says who must complete the commit, kCorruptData for an invalid journal, kIo.
void complete_commit(const std::string& dataset_path);

}  // namespace energon
