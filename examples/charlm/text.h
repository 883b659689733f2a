// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace charlm {

/// A character is one byte of the text; a token is its rank among the distinct bytes that occur.
using Token = std::uint8_t;

/// A text as tokens: the first nine tenths to train on, the last tenth held out.
struct Corpus {
  std::string source;  ///< where the text came from, for people
  int vocabulary = 0;  ///< number of distinct bytes
  std::vector<Token> training;
  std::vector<Token> held_out;
};

/// The licence texts that every Debian system carries, in sorted order; links to another one are skipped.
std::string read_licence_texts();

/// The whole file, byte for byte. Throws Failure if it is missing, a folder or unreadable.
std::string read_text_file(const std::string& path);

/// Tokenizes and splits. Throws Failure if either part is shorter than one window of `context` + 1 characters.
Corpus make_corpus(std::string source, const std::string& text, int context);

/// How many of the held-out characters are predicted: whole windows of `context` only.
std::size_t predicted_characters(const Corpus& corpus, int context);

/// Nats per character of a table of character pairs, counted on the training part with one added to every count,
/// on the characters that the model is measured on.
double bigram_loss(const Corpus& corpus, int context);

}  // namespace charlm
