#include "media/tokens/sentencepiece_calls.h"

#include <dlfcn.h>

#include <new>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// Each keeps its functions to itself, and the library prefers its own. Sanitizers refuse the
// second.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL;
#else
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif
#else
constexpr int kLoadFlags = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND;
#endif

[[noreturn]] void throw_loader_problem() {
  const char* const problem = ::dlerror();
  throw Error(ErrorCode::kUnsupported,
              fmt::format("cannot load the library of SentencePiece ({}); install the package "
                          "libsentencepiece0",
                          problem != nullptr ? problem : "no reason given"));
}

// Names by the Itanium C++ ABI, in which a constructor is a function of the object's address.
struct PieceCalls {
  void* library = nullptr;  // stays loaded
  void (*construct_processor)(void* storage) = nullptr;
  const char* (*error_message)(const sentencepiece::util::Status* status) = nullptr;
  void (*destroy_status)(sentencepiece::util::Status* status) = nullptr;
};

template <class Function>
void find_call(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  if (function == nullptr) {
    throw_loader_problem();
  }
}

// What the library would print is in its errors, or of no interest.
void silence_library(void* library) {
  using SetMinLogLevel = void (*)(int level);
  constexpr int kOnlyFatal = 3;
  // Exported, though not in its headers.
  if (const auto set = reinterpret_cast<SetMinLogLevel>(
          ::dlsym(library, "_ZN13sentencepiece7logging14SetMinLogLevelEi"))) {
    set(kOnlyFatal);
  }
}

PieceCalls load_calls() {
  PieceCalls calls;
  calls.library = ::dlopen(ENERGON_SENTENCEPIECE_LIBRARY, kLoadFlags);
  if (calls.library == nullptr) {
    throw_loader_problem();
  }
  find_call(calls.library, "_ZN13sentencepiece22SentencePieceProcessorC1Ev",
            calls.construct_processor);
  find_call(calls.library, "_ZNK13sentencepiece4util6Status13error_messageEv", calls.error_message);
  find_call(calls.library, "_ZN13sentencepiece4util6StatusD1Ev", calls.destroy_status);
  silence_library(calls.library);
  return calls;
}

const PieceCalls& piece_calls() {
  static const PieceCalls calls = load_calls();
  return calls;
}

}  // namespace

PieceProcessor new_piece_processor() {
  const PieceCalls& calls = piece_calls();
  using sentencepiece::SentencePieceProcessor;
  struct Storage {
    void operator()(void* bytes) const { ::operator delete(bytes); }
  };
  std::unique_ptr<void, Storage> storage(::operator new(sizeof(SentencePieceProcessor)));
  calls.construct_processor(storage.get());
  return PieceProcessor(std::launder(static_cast<SentencePieceProcessor*>(storage.release())));
}

std::optional<std::string> end_status(sentencepiece::util::Status& status) {
  std::optional<std::string> problem;
  if (!status.ok()) {
    problem = piece_calls().error_message(&status);
  }
  piece_calls().destroy_status(&status);
  return problem;
}

}  // namespace energon
