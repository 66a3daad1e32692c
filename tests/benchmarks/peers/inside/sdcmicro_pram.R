# sdcMicro: invariant PRAM of both diagnoses.

suppressPackageStartupMessages(library(sdcMicro))
set.seed(1)
parameters <- jsonlite::fromJSON(commandArgs(TRUE)[1])
diagnoses <- c("principal", "secondary")
records <- read.csv("records.csv", colClasses = "character")
records[diagnoses] <- lapply(records[diagnoses], factor)

write_table <- function(number, masked) {
  masked <- cbind(masked, records[c("readmitted", "stay")])
  write.csv(masked, sprintf("masked-%d.csv", number), row.names = FALSE, quote = FALSE)
}

# The attacker knows the transition matrices, so the other tables are drawn from those of the first.
pram_tables <- function() {
  done <- pram(records, variables = diagnoses)
  write_table(0, setNames(done[paste0(diagnoses, "_pram")], diagnoses))
  channels <- lapply(attr(done, "pram_params")[diagnoses], function(found) found$Rs)
  for (number in seq_len(parameters$tables - 1)) {
    masked <- lapply(diagnoses, function(name) {
      drawn <- split(seq_len(nrow(records)), records[[name]])
      codes <- character(nrow(records))
      for (code in names(drawn)) {
        size <- length(drawn[[code]])
        codes[drawn[[code]]] <- sample(colnames(channels[[name]]), size, TRUE, channels[[name]][code, ])
      }
      codes
    })
    write_table(number, setNames(as.data.frame(masked), diagnoses))
  }
  list(changed = attr(done, "summary")$percChanges)
}

cat(jsonlite::toJSON(pram_tables()), "\n")
