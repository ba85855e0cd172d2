// The text of python/energon_cpp/_energon_pickle.py.

#pragma once

namespace energon::cli {

extern const char* const kEnergonPickleScript;

}  // namespace energon::cli
