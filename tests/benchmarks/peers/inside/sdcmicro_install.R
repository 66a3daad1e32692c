# Installs the source of sdcMicro in a library, without the packages of its user interface that R does not find.

arguments <- commandArgs(TRUE)
source <- arguments[1]
description <- read.dcf(file.path(source, "DESCRIPTION"))
imports <- trimws(strsplit(description[, "Imports"], ",")[[1]])
packages <- sub("\\s*\\(.*", "", imports)
lacking <- packages[!vapply(packages, requireNamespace, TRUE, quietly = TRUE)]
stopifnot(lacking %in% c("rhandsontable", "DT", "prettydoc", "VIM", "shiny", "rmarkdown", "haven", "httr"))
description[, "Imports"] <- paste(imports[!packages %in% lacking], collapse = ", ")
write.dcf(description, file.path(source, "DESCRIPTION"))
lines <- readLines(file.path(source, "NAMESPACE"))
imported <- sub('^import(From)?\\("?([A-Za-z0-9.]+)"?[,)].*', "\\2", lines)
writeLines(lines[!(grepl("^import", lines) & imported %in% lacking)], file.path(source, "NAMESPACE"))
dir.create(arguments[2])
options <- c("--no-docs", "--no-test-load", "--no-byte-compile")
install.packages(source, lib = arguments[2], repos = NULL, type = "source", INSTALL_opts = options)
