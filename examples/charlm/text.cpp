// SPDX-FileCopyrightText: The Stepfuse authors
// SPDX-License-Identifier: Apache-2.0
#include "text.h"

#include "failure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace charlm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLicenceFolder = "/usr/share/common-licenses";
constexpr std::size_t kHeldOutShare = 10;  // one part in ten

Corpus split(std::string source, std::vector<Token> tokens, int vocabulary) {
  Corpus corpus;
  corpus.source = std::move(source);
  corpus.vocabulary = vocabulary;
  const auto held_out = static_cast<std::ptrdiff_t>(tokens.size() / kHeldOutShare);
  corpus.training.assign(tokens.begin(), tokens.end() - held_out);
  corpus.held_out.assign(tokens.end() - held_out, tokens.end());
  return corpus;
}

}  // namespace

std::string read_text_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw Failure(ExitCode::Missing, "text file '" + path + "' does not exist",
                  "give a readable file with --text, or leave --text out to use the licence texts of Debian");
  }
  if (fs::is_directory(status)) {
    throw Failure(ExitCode::Usage, "'" + path + "' is a folder, not a text file", "give one file with --text");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(ExitCode::Missing, "cannot open '" + path + "'", "check that you may read it");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) throw Failure(ExitCode::Missing, "cannot read '" + path + "' to its end", "check the disk");
  return text;
}

std::string read_licence_texts() {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(kLicenceFolder, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->is_symlink() && entry->is_regular_file()) paths.push_back(entry->path().string());
  }
  if (error || paths.empty()) {
    throw Failure(ExitCode::Missing, std::string("no licence texts in ") + kLicenceFolder,
                  "this system is not a Debian; name a text of some 200 kB or more with --text FILE");
  }
  std::sort(paths.begin(), paths.end());
  std::string text;
  for (const std::string& path : paths) text += read_text_file(path);
  return text;
}

Corpus make_corpus(std::string source, const std::string& text, int context) {
  std::array<bool, 256> occurs{};
  for (const char c : text) occurs[static_cast<unsigned char>(c)] = true;
  std::array<Token, 256> token_of{};
  int vocabulary = 0;
  for (std::size_t byte = 0; byte < occurs.size(); ++byte) {
    if (occurs[byte]) token_of[byte] = static_cast<Token>(vocabulary++);
  }
  std::vector<Token> tokens;
  tokens.reserve(text.size());
  for (const char c : text) tokens.push_back(token_of[static_cast<unsigned char>(c)]);

  const std::size_t needed = kHeldOutShare * (static_cast<std::size_t>(context) + 1);
  if (tokens.size() < needed) {
    throw Failure(ExitCode::Usage,
                  source + " has " + std::to_string(tokens.size()) + " characters; a context of " +
                      std::to_string(context) + " needs at least " + std::to_string(needed),
                  "give a longer text with --text, or a smaller --context");
  }
  return split(std::move(source), std::move(tokens), vocabulary);
}

std::size_t predicted_characters(const Corpus& corpus, int context) {
  const auto window = static_cast<std::size_t>(context);
  return (corpus.held_out.size() - 1) / window * window;
}

double bigram_loss(const Corpus& corpus, int context) {
  const auto vocabulary = static_cast<std::size_t>(corpus.vocabulary);
  std::vector<double> pairs(vocabulary * vocabulary, 1.0);
  std::vector<double> firsts(vocabulary, static_cast<double>(vocabulary));
  for (std::size_t i = 1; i < corpus.training.size(); ++i) {
    pairs[corpus.training[i - 1] * vocabulary + corpus.training[i]] += 1.0;
    firsts[corpus.training[i - 1]] += 1.0;
  }
  const std::size_t predicted = predicted_characters(corpus, context);
  double loss = 0.0;
  for (std::size_t i = 1; i <= predicted; ++i) {
    const Token previous = corpus.held_out[i - 1];
    loss -= std::log(pairs[previous * vocabulary + corpus.held_out[i]] / firsts[previous]);
  }
  return loss / static_cast<double>(predicted);
}

}  // namespace charlm
