/* A C interface to libsentencepiece, in a separate shared library: libenergon_sentencepiece.so.

   Debian's libsentencepiece exports its own copy of Protocol Buffers. In a program that links both
   it and libprotobuf, as libtorch does, each calls functions of the other's version, and the
   program crashes before main(). Therefore only the shim links libsentencepiece, and
   sentencepiece.cpp loads the shim when it is first needed, with its symbols kept separate.

   A text is passed as a pointer and a size. Functions that return const char* return null on
   success, else a message that is valid until the next call on the same thread. */

#pragma once

#include <stddef.h>  // NOLINT(modernize-deprecated-headers): C
#include <stdint.h>  // NOLINT(modernize-deprecated-headers): C

#ifdef __cplusplus
extern "C" {
#endif

typedef struct EnergonPieces EnergonPieces; /* NOLINT(modernize-use-using): C */

/* Receives the `size` token ids of one segmentation of a text, and its score. */
typedef void (*EnergonTakeIds)(void* receiver, const int* ids, size_t size, float score);
/* Receives a text. */
typedef void (*EnergonTakeText)(void* receiver, const char* text, size_t size);

/* The functions of the shim. All but load() and release() are thread-safe. */
typedef struct EnergonPieceCalls { /* NOLINT(modernize-use-using): C */
  /* Sets *pieces to the model in `model`, the content of a .model file. */
  const char* (*load)(const char* model, size_t size, EnergonPieces** pieces);
  void (*release)(EnergonPieces* pieces);
  int (*vocabulary_size)(const EnergonPieces* pieces);
  /* Ids of the special tokens; -1 if the model has no such token. */
  void (*special_ids)(const EnergonPieces* pieces, int* begin, int* end, int* pad, int* unknown);
  const char* (*encode)(const EnergonPieces* pieces, const char* text, size_t size,
                        EnergonTakeIds take, void* receiver);
  /* Calls `take` for each of the `count` best segmentations of the text. Unigram models only. */
  const char* (*encode_best)(const EnergonPieces* pieces, const char* text, size_t size, int count,
                             EnergonTakeIds take, void* receiver);
  const char* (*decode)(const EnergonPieces* pieces, const int* ids, size_t size,
                        EnergonTakeText take, void* receiver);
} EnergonPieceCalls;

/* The only symbol that the library exports. */
const EnergonPieceCalls* energon_piece_calls(void);

#ifdef __cplusplus
}
#endif
